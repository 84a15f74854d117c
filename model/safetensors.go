package model

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// The safetensors format (huggingface/safetensors, README, "Format"): 8 bytes little-endian length of the header, the
// header, a JSON object of name to {dtype, shape, data_offsets}, and the values, little-endian and without gaps.

// maxHeader is the longest header that the reference implementation reads.
const maxHeader = 100_000_000

const metadataKey = "__metadata__"

// WriteSafetensors writes parameters as float32 in the given order, with metadata of the caller. Equal arguments give
// equal bytes. Names must be unique, and values as many as the shape says.
func WriteSafetensors(w io.Writer, ps Params, meta map[string]string) error {
	header, err := safetensorsHeader(ps, meta)
	if err != nil {
		return err
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))); err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, t := range ps {
		raw := make([]byte, 0, 4*len(t.Data))
		for _, v := range t.Data {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		if _, err := w.Write(raw); err != nil {
			return err
		}
	}
	return nil
}

// entry is the header's description of one tensor.
type entry struct {
	DType   string  `json:"dtype"`
	Shape   []int   `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

// safetensorsHeader is the JSON object, padded with blanks so that the values begin at a multiple of 8 bytes.
func safetensorsHeader(ps Params, meta map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	if len(meta) > 0 {
		text, err := json.Marshal(meta) // sorts the keys
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", metadataKey, text)
	}
	seen := map[string]bool{metadataKey: true}
	at := int64(0)
	for _, t := range ps {
		if seen[t.Name] || t.Name == "" {
			return nil, fmt.Errorf("safetensors: tensor name %q is empty, reserved or given twice", t.Name)
		}
		seen[t.Name] = true
		if n, err := elements(t.Shape); err != nil || n != len(t.Data) {
			return nil, fmt.Errorf("safetensors: tensor %s has shape %v and %d values", t.Name, t.Shape, len(t.Data))
		}
		end := at + 4*int64(len(t.Data))
		name, err := json.Marshal(t.Name)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(entry{DType: "F32", Shape: append([]int{}, t.Shape...), Offsets: []int64{at, end}})
		if err != nil {
			return nil, err
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", name, text)
		at = end
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if b.Len() > maxHeader {
		return nil, fmt.Errorf("safetensors: the header takes %d bytes, at most %d are allowed", b.Len(), maxHeader)
	}
	return b.Bytes(), nil
}

// elements is the number of values of a shape, an error where it is negative or too large for memory.
func elements(shape []int) (int, error) {
	n := 1
	for _, d := range shape {
		if d < 0 || d > 0 && n > math.MaxInt/8/d {
			return 0, fmt.Errorf("shape %v is out of range", shape)
		}
		n *= d
	}
	return n, nil
}

// ReadSafetensors reads a file of float32 tensors, in the order of their values in the file, and its metadata. It
// refuses what the format forbids: overlapping tensors, gaps, bytes after the last tensor, headers above 100 MB.
func ReadSafetensors(data []byte) (Params, map[string]string, error) {
	ps, meta, err := readSafetensors(data)
	if err != nil {
		return nil, nil, fmt.Errorf("safetensors: %w", err)
	}
	return ps, meta, nil
}

func readSafetensors(data []byte) (Params, map[string]string, error) {
	if len(data) < 8 {
		return nil, nil, fmt.Errorf("the file has %d bytes, too few for a header", len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	if n > maxHeader {
		return nil, nil, fmt.Errorf("the header claims %d bytes, at most %d are allowed: this is no safetensors file", n, maxHeader)
	}
	if n > uint64(len(data)-8) {
		return nil, nil, fmt.Errorf("the header claims %d bytes, the file has %d behind its length: it is cut off", n, len(data)-8)
	}
	header, values := data[8:8+n], data[8+n:]
	entries, meta, err := parseHeader(header)
	if err != nil {
		return nil, nil, err
	}
	ps, err := cutTensors(entries, values)
	return ps, meta, err
}

// named is an entry with its name, in the order of the header.
type named struct {
	name string
	entry
}

func parseHeader(header []byte) ([]named, map[string]string, error) {
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, errors.New("the header does not begin with {")
	}
	dec := json.NewDecoder(bytes.NewReader(header))
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	var out []named
	var meta map[string]string
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("header: %w", err)
		}
		name, _ := token.(string) // a key of an object is always a string
		if seen[name] {
			return nil, nil, fmt.Errorf("header: %q stands twice", name)
		}
		seen[name] = true
		if name == metadataKey {
			if err := dec.Decode(&meta); err != nil {
				return nil, nil, fmt.Errorf("header: %s: want a map of strings: %w", metadataKey, err)
			}
			continue
		}
		e := named{name: name}
		if err := dec.Decode(&e.entry); err != nil {
			return nil, nil, fmt.Errorf("header: tensor %q: %w", name, err)
		}
		out = append(out, e)
	}
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	if rest := bytes.TrimRight(header[dec.InputOffset():], " "); len(rest) > 0 {
		return nil, nil, fmt.Errorf("header: %d bytes behind the closing brace", len(rest))
	}
	return out, meta, nil
}

// cutTensors takes the values apart; the tensors must cover them from the first to the last byte.
func cutTensors(entries []named, values []byte) (Params, error) {
	for _, e := range entries {
		if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[0] > e.Offsets[1] || e.Offsets[1] > int64(len(values)) {
			return nil, fmt.Errorf("tensor %q has data_offsets %v, the file has %d bytes of values", e.name, e.Offsets, len(values))
		}
	}
	slices.SortStableFunc(entries, func(a, b named) int {
		return slices.Compare(a.Offsets, b.Offsets)
	})
	var ps Params
	at := int64(0)
	for _, e := range entries {
		start, end := e.Offsets[0], e.Offsets[1]
		switch {
		case start < at:
			return nil, fmt.Errorf("tensor %q begins at byte %d, inside the one before, which ends at %d", e.name, start, at)
		case start > at:
			return nil, fmt.Errorf("bytes %d to %d of the values, before tensor %q, belong to no tensor", at, start, e.name)
		case e.DType != "F32":
			return nil, fmt.Errorf("tensor %q has dtype %q, want F32", e.name, e.DType)
		}
		n, err := elements(e.Shape)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", e.name, err)
		}
		if end-start != 4*int64(n) {
			return nil, fmt.Errorf("tensor %q of shape %v needs %d bytes, its data_offsets give %d", e.name, e.Shape, 4*n, end-start)
		}
		t := Tensor{Name: e.name, Shape: append([]int{}, e.Shape...), Data: make([]float32, n)}
		for i := range t.Data {
			t.Data[i] = math.Float32frombits(binary.LittleEndian.Uint32(values[start+4*int64(i):]))
		}
		ps = append(ps, t)
		at = end
	}
	if at != int64(len(values)) {
		return nil, fmt.Errorf("%d bytes behind the last tensor", int64(len(values))-at)
	}
	return ps, nil
}
