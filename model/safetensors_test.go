package model

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func written(t testing.TB, ps Params, meta map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSafetensors(&b, ps, meta); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func small() Params {
	return Params{
		{Name: "fc.weight", Shape: []int{2, 3}, Data: []float32{1, -2, 3.5, 0, float32(math.Inf(1)), 1e-40}},
		{Name: `odd "name"`, Shape: []int{}, Data: []float32{7}},
		{Name: "empty", Shape: []int{0, 4}, Data: []float32{}},
		{Name: "a.bias", Shape: []int{2}, Data: []float32{4, 5}},
	}
}

func TestSafetensorsRoundTrip(t *testing.T) {
	meta := map[string]string{"tool": "jempipe", "arch": "ü\n", "b": ""}
	data := written(t, small(), meta)
	for range 5 {
		if !bytes.Equal(data, written(t, small(), meta)) {
			t.Fatal("equal parameters give different bytes")
		}
	}
	ps, got, err := ReadSafetensors(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(small(), ps); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(meta, got); d != "" {
		t.Error(d)
	}
	if n := binary.LittleEndian.Uint64(data); n%8 != 0 {
		t.Errorf("the values begin at byte %d, no multiple of 8", n+8)
	}
}

// The bytes of a small file, as the format describes them.
func TestSafetensorsBytes(t *testing.T) {
	got := written(t, Params{{Name: "w", Shape: []int{1, 2}, Data: []float32{1, -2}}}, map[string]string{"k": "v"})
	want := "\x58\x00\x00\x00\x00\x00\x00\x00" +
		`{"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}       ` +
		"\x00\x00\x80\x3f\x00\x00\x00\xc0"
	if string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestSafetensorsWithoutTensors(t *testing.T) {
	ps, meta, err := ReadSafetensors(written(t, nil, nil))
	if err != nil || len(ps) != 0 || len(meta) != 0 {
		t.Errorf("got %v, %v, %v", ps, meta, err)
	}
}

func TestSafetensorsWriterRefuses(t *testing.T) {
	for want, ps := range map[string]Params{
		"given twice": {{Name: "a", Shape: []int{1}, Data: []float32{1}}, {Name: "a", Shape: []int{1}, Data: []float32{1}}},
		"2 values":    {{Name: "a", Shape: []int{3}, Data: []float32{1, 2}}},
		"reserved":    {{Name: "__metadata__", Shape: []int{1}, Data: []float32{1}}},
	} {
		if err := WriteSafetensors(&bytes.Buffer{}, ps, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func file(header string, values int) []byte {
	data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(data, header...), make([]byte, values)...)
}

func TestSafetensorsReaderRefuses(t *testing.T) {
	const a = `"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"nothing", "too few", nil},
		{"short", "too few", []byte{1, 2, 3}},
		{"huge header", "no safetensors file", binary.LittleEndian.AppendUint64(nil, 1<<60)},
		{"header just above the limit", "no safetensors file", binary.LittleEndian.AppendUint64(nil, maxHeader+1)},
		{"cut off", "cut off", file("{}", 0)[:9]},
		{"no object", "begin with {", file(`[]`, 0)},
		{"leading blank", "begin with {", file(` {}`, 0)},
		{"broken JSON", "header", file(`{"a":`, 0)},
		{"not closed", "header", file(`{`+a, 8)},
		{"text behind", "behind the closing brace", file(`{} {}`, 0)},
		{"twice", "stands twice", file(`{`+a+`,`+a+`}`, 8)},
		{"wrong metadata", "map of strings", file(`{"__metadata__":{"k":1}}`, 0)},
		{"wrong dtype", `dtype "F16"`, file(`{"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}}`, 8)},
		{"offsets behind the end", "8 bytes of values", file(`{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}`, 8)},
		{"offsets reversed", "data_offsets", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, 8)},
		{"offset negative", "data_offsets", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}}`, 8)},
		{"one offset", "data_offsets", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8]}}`, 8)},
		{"overlap", "inside the one before", file(`{`+a+`,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12)},
		{"hole", "belong to no tensor", file(`{`+a+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}`, 16)},
		{"trailing bytes", "4 bytes behind", file(`{`+a+`}`, 12)},
		{"shape too small", "needs 4 bytes", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}`, 8)},
		{"shape negative", "out of range", file(`{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`, 8)},
		{"shape overflows", "out of range", file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}`, 8)},
		{"shape is text", "header", file(`{"a":{"dtype":"F32","shape":"x","data_offsets":[0,8]}}`, 8)},
	} {
		_, _, err := ReadSafetensors(c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// Whatever is read can be written and read again.
func FuzzReadSafetensors(f *testing.F) {
	f.Add(written(f, small(), map[string]string{"a": "b"}))
	f.Add(written(f, nil, nil))
	f.Add(file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4))
	f.Fuzz(func(t *testing.T, data []byte) {
		ps, meta, err := ReadSafetensors(data)
		if err != nil {
			return
		}
		for _, p := range ps {
			if p.Name == "" {
				return // the format allows it, the writer does not
			}
		}
		again, meta2, err := ReadSafetensors(written(t, ps, meta))
		if err != nil {
			t.Fatal(err)
		}
		if len(again) != len(ps) || len(meta2) != len(meta) {
			t.Fatalf("%d tensors and %d entries became %d and %d", len(ps), len(meta), len(again), len(meta2))
		}
	})
}
