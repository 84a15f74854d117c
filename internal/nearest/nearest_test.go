package nearest

import "testing"

func TestTo(t *testing.T) {
	known := []string{"images", "labels", "path", "x", "label", "sample_id"}
	for _, c := range []struct{ name, want string }{
		{"image", "images"},
		{"imgaes", "images"},
		{"Labels", "labels"},
		{"pth", "path"},
		{"sampleid", "sample_id"},
		{"sample-id", "sample_id"},
		{"X", "x"},
		{"seed", ""},
		{"completely different", ""},
		{"", ""},
	} {
		if got := To(c.name, known); got != c.want {
			t.Errorf("To(%q) = %q, want %q", c.name, got, c.want)
		}
	}
	if got := To("a", nil); got != "" {
		t.Errorf("To with no names = %q, want nothing", got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"ca", "abc", 3}, {"größe", "grösse", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := distance(c.b, c.a); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
