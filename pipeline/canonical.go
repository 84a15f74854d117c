package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// canonical gives the value of a configuration as plain JSON values under its YAML keys, without the fields that have no
// influence on results. An absent list equals an empty one.
func canonical(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return canonical(v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		for _, f := range mustSchema(v.Type()).fields {
			if !f.silent {
				out[f.name] = canonical(v.FieldByIndex(f.index))
			}
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			out[k.String()] = canonical(v.MapIndex(k))
		}
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = canonical(v.Index(i))
		}
		return out
	case reflect.Float32, reflect.Float64:
		if x := v.Float(); math.IsInf(x, 0) || math.IsNaN(x) {
			return fmt.Sprint(x) // JSON has no such number; a default may
		}
	}
	return v.Interface()
}

// canonicalJSON is the canonical text of a configuration: keys sorted, no blanks.
func canonicalJSON(config any) json.RawMessage {
	text, err := json.Marshal(canonical(reflect.ValueOf(config)))
	if err != nil {
		// Only values that a schema refuses cannot be written as JSON.
		return json.RawMessage(fmt.Sprintf("%q", err.Error()))
	}
	return text
}

func hashOf(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// flatten turns JSON into key paths and the text of their values, lists taken whole.
func flatten(text json.RawMessage) map[string]string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	out := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if m, ok := v.(map[string]any); ok {
			for k, e := range m {
				walk(strings.TrimPrefix(path+"."+k, "."), e)
			}
			return
		}
		b, _ := json.Marshal(v)
		out[path] = string(b)
	}
	walk("", v)
	return out
}

// changedKeys lists the key paths in which two configurations differ, with old and new value where those are short.
func changedKeys(before, now json.RawMessage) []string {
	a, b := flatten(before), flatten(now)
	var out []string
	for k, v := range b {
		if old, ok := a[k]; !ok || old != v {
			out = append(out, change(k, old, v))
		}
	}
	for k, v := range a {
		if _, ok := b[k]; !ok {
			out = append(out, change(k, v, ""))
		}
	}
	slices.Sort(out)
	return out
}

func change(key, before, now string) string {
	if len(before)+len(now) > 60 {
		return key
	}
	switch {
	case before == "":
		return fmt.Sprintf("%s (now %s)", key, now)
	case now == "":
		return fmt.Sprintf("%s (was %s)", key, before)
	}
	return fmt.Sprintf("%s (%s -> %s)", key, before, now)
}
