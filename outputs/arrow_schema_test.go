package outputs

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/ipc"
)

func TestArrowSchemaHasEveryColumn(t *testing.T) {
	path := write(t, predictions())
	kv, err := keyValues(path)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := base64.StdEncoding.DecodeString(kv[arrowSchemaKey])
	if err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewReader(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	columns := Tables()[0].Columns
	if r.Schema().NumFields() != len(columns) {
		t.Fatalf("%d fields, want %d", r.Schema().NumFields(), len(columns))
	}
	for i, f := range r.Schema().Fields() {
		if f.Name != columns[i].Name || f.Nullable != columns[i].Nullable {
			t.Errorf("field %d is %v, want %+v", i, f, columns[i])
		}
	}
	for name, want := range map[string]string{
		"dataset":   "dictionary<values=utf8, indices=int32, ordered=false>",
		"role":      "utf8",
		"sample_id": "int64",
		"logits":    "list<element: float32>",
		"correct":   "bool",
	} {
		fields, _ := r.Schema().FieldsByName(name)
		if got := fields[0].Type.String(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if kv, err = keyValues(write(t, curve(1))); err != nil || kv[arrowSchemaKey] != "" {
		t.Errorf("a table without partitions has an Arrow schema: %v", err)
	}
}
