package datasets

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jempipe/jempipe/internal/fault"
)

// The parts of the digits never change. Numbers were computed from the source files with another program.
func TestDigitsGolden(t *testing.T) {
	for _, c := range []struct {
		split       string
		counts      []int
		first, last int64
		pixels, ids uint32 // CRC-32 of the pixels, and of the ids as big-endian 16-bit numbers
	}{
		{"train", []int{108, 110, 107, 111, 109, 110, 109, 108, 105, 108}, 0, 1794, 0x367f2a16, 0x3d2cf2e1},
		{"valid", []int{35, 36, 35, 36, 36, 36, 36, 36, 35, 36}, 30, 1796, 0x2759602d, 0x670ba9b6},
		{"test", []int{35, 36, 35, 36, 36, 36, 36, 35, 34, 36}, 33, 1795, 0x018ac68c, 0x354f6793},
		{"all", []int{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}, 0, 1796, 0xf3a2533c, 0xe5e23f26},
		{"", []int{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}, 0, 1796, 0xf3a2533c, 0xe5e23f26},
	} {
		s := checked(t, oneSet(Spec{Source: "builtin:digits", Split: c.split}))
		got := collect(t, s, "d", 100)
		counts := make([]int, 10)
		var ids []byte
		for i, label := range got.Labels {
			counts[label]++
			ids = binary.BigEndian.AppendUint16(ids, uint16(got.IDs[i]))
			if !got.HasLabel[i] || got.Status[i] != StatusOK || got.Reason[i] != "" {
				t.Fatalf("%s, row %d: %v %q %q", c.split, i, got.HasLabel[i], got.Status[i], got.Reason[i])
			}
		}
		if diff := cmp.Diff(c.counts, counts); diff != "" {
			t.Errorf("%s: %s", c.split, diff)
		}
		if got.IDs[0] != c.first || got.IDs[len(got.IDs)-1] != c.last {
			t.Errorf("%s: ids %d to %d, want %d to %d", c.split, got.IDs[0], got.IDs[len(got.IDs)-1], c.first, c.last)
		}
		if x, y := crc(got.X), crc32.ChecksumIEEE(ids); x != c.pixels || y != c.ids {
			t.Errorf("%s: checksums %#x and %#x, want %#x and %#x", c.split, x, y, c.pixels, c.ids)
		}
		d, _ := s.Get("d")
		want := Info{Name: "d", Rows: int64(len(got.IDs)), Shape: []int{8, 8}, Labelled: true, Classes: numbered(10), Hi: 16}
		if diff := cmp.Diff(want, d.Info()); diff != "" {
			t.Errorf("%s: %s", c.split, diff)
		}
		if len(d.Files()) > 0 {
			t.Errorf("files %v, want none", d.Files())
		}
	}
	_, err := oneSet(Spec{Source: "builtin:digits", Split: "dev"}).Get("d")
	wantFault(t, err, fault.Config, "data.d.split", `unknown part "dev"`)
}
