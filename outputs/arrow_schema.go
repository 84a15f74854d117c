package outputs

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/parquet-go/parquet-go"
)

// arrowSchemaKey is where Arrow's Parquet readers look for the Arrow types of the columns.
const arrowSchemaKey = "ARROW:schema"

// arrowSchema is the Arrow schema of a table as its readers want it: an IPC stream in base64. It says that a column
// named like a Hive partition is a dictionary of strings, which is what pyarrow takes the dataset=NAME of a path for;
// without it pandas.read_parquet of the folder fails on two types for one name. The metadata is in it once more, since
// such readers look for it nowhere else then.
func arrowSchema(s *parquet.Schema, partition string, meta map[string]string) (string, error) {
	fields := make([]arrow.Field, 0, len(s.Fields()))
	for _, f := range s.Fields() {
		t := arrowType(f)
		if f.Name() == partition {
			t = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
		}
		fields = append(fields, arrow.Field{Name: f.Name(), Type: t, Nullable: f.Optional()})
	}
	var values []string
	keys := slices.Sorted(maps.Keys(meta))
	for _, key := range keys {
		values = append(values, meta[key])
	}
	metadata := arrow.NewMetadata(keys, values)
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(arrow.NewSchema(fields, &metadata)))
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// arrowType is the Arrow type of a column of one of our tables.
func arrowType(n parquet.Node) arrow.DataType {
	if !n.Leaf() {
		element := n.Fields()[0].Fields()[0]
		return arrow.ListOfField(arrow.Field{Name: "element", Type: arrowType(element), Nullable: element.Optional()})
	}
	switch n.Type().Kind() {
	case parquet.Boolean:
		return arrow.FixedWidthTypes.Boolean
	case parquet.Int32:
		return arrow.PrimitiveTypes.Int32
	case parquet.Int64:
		return arrow.PrimitiveTypes.Int64
	case parquet.Float:
		return arrow.PrimitiveTypes.Float32
	case parquet.Double:
		return arrow.PrimitiveTypes.Float64
	}
	return arrow.BinaryTypes.String
}
