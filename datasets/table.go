package datasets

import (
	"fmt"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// Values of the status column. Every status but StatusOK comes with a reason, and with zeros in x.
const (
	StatusOK          = "ok"
	StatusNaN         = "nan"                // x has a NaN
	StatusInfinite    = "infinite"           // x has an infinity, or a number beyond float32
	StatusWrongLength = "wrong_length"       // x has too few or too many values
	StatusNullX       = "null_x"             // x is null
	StatusNullValue   = "null_value"         // x has a null among its values
	StatusLabelRange  = "label_out_of_range" // the label is no class number
	StatusDuplicateID = "duplicate_id"       // an earlier row has the same sample_id
)

// Column names and positions of every record.
const (
	colID = iota
	colLabel
	colX
	colStatus
	colReason
)

// Schema is the schema of the records of a data set:
//
//	sample_id      int64 or utf8
//	label          int32, null where unlabelled
//	x              fixed_size_list<item: float32 or uint8>, row-major, field metadata "shape" such as "8,8"
//	status         utf8, "ok" or a short word
//	status_reason  utf8, null where status is ok
func Schema(info Info) *arrow.Schema {
	id, value := arrow.DataType(arrow.PrimitiveTypes.Int64), arrow.DataType(arrow.PrimitiveTypes.Uint8)
	if info.StringID {
		id = arrow.BinaryTypes.String
	}
	if info.Float {
		value = arrow.PrimitiveTypes.Float32
	}
	dims := strings.Trim(strings.ReplaceAll(fmt.Sprint(info.Shape), " ", ","), "[]")
	return arrow.NewSchema([]arrow.Field{
		{Name: "sample_id", Type: id},
		{Name: "label", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{
			Name: "x", Type: arrow.FixedSizeListOf(int32(info.Width()), value),
			Metadata: arrow.NewMetadata([]string{"shape"}, []string{dims}),
		},
		{Name: "status", Type: arrow.BinaryTypes.String},
		{Name: "status_reason", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
}

// table collects the rows of one record. Sources fill row i = n, n+1, ... and call add for each.
type table struct {
	info   Info
	keep   bool // a bad row stays; else it is an error
	width  int
	mem    memory.Allocator
	schema *arrow.Schema

	n        int
	x        *memory.Buffer
	floats   []float32 // values of x where info.Float
	bytes    []byte    // values of x else
	ids      []int64
	texts    []string // ids where info.StringID
	labels   []int32
	labelled []bool
	status   []string
	reason   []string // "" where the row is good
}

func newTable(info Info, keep bool, mem memory.Allocator) *table {
	return &table{info: info, keep: keep, width: info.Width(), mem: mem, schema: Schema(info)}
}

// reset makes room for n rows of a new record.
func (t *table) reset(n int) {
	t.free()
	t.n = 0
	t.x = memory.NewResizableBuffer(t.mem)
	if t.info.Float {
		t.x.Resize(n * t.width * 4)
		t.floats = arrow.Float32Traits.CastFromBytes(t.x.Bytes())
	} else {
		t.x.Resize(n * t.width)
		t.bytes = t.x.Bytes()
	}
	t.ids, t.texts = t.ids[:0], t.texts[:0]
	t.labels, t.labelled = t.labels[:0], t.labelled[:0]
	t.status, t.reason = t.status[:0], t.reason[:0]
}

func (t *table) free() {
	if t.x != nil {
		t.x.Release()
		t.x, t.floats, t.bytes = nil, nil, nil
	}
}

// floatRow and byteRow are the values of the row being filled.
func (t *table) floatRow() []float32 {
	return t.floats[t.n*t.width : (t.n+1)*t.width : (t.n+1)*t.width]
}
func (t *table) byteRow() []byte { return t.bytes[t.n*t.width : (t.n+1)*t.width : (t.n+1)*t.width] }

// flaw is what is wrong with a row.
type flaw struct {
	status, found, remedy string
}

// add completes the row being filled. label is ignored unless labelled. A bad row is an error at where(), or stays with
// zeros, and without a label where that is out of range.
func (t *table) add(label int64, labelled bool, flaws []flaw, where func(flaw) place) error {
	if len(flaws) > 0 && !t.keep {
		f := flaws[0]
		return where(f).errorf("%s", f.found).Do("%s", f.remedy)
	}
	status, reason := StatusOK, ""
	for _, f := range flaws {
		if f.status == StatusLabelRange {
			labelled = false
		}
		if reason != "" {
			reason += "; "
		} else {
			status = f.status
		}
		reason += f.found
	}
	if reason != "" {
		if t.info.Float {
			clear(t.floatRow())
		} else {
			clear(t.byteRow())
		}
	}
	if !labelled {
		label = 0
	}
	t.labels = append(t.labels, int32(label))
	t.labelled = append(t.labelled, labelled)
	t.status = append(t.status, status)
	t.reason = append(t.reason, reason)
	t.n++
	return nil
}

// record turns the rows into a record and starts anew.
func (t *table) record() arrow.Record {
	cols := []arrow.Array{t.idColumn(), t.labelColumn(), t.xColumn(), t.statusColumn(), t.reasonColumn()}
	rec := array.NewRecord(t.schema, cols, int64(t.n))
	for _, c := range cols {
		c.Release()
	}
	t.free()
	return rec
}

func (t *table) idColumn() arrow.Array {
	if t.info.StringID {
		b := array.NewStringBuilder(t.mem)
		defer b.Release()
		b.AppendValues(t.texts, nil)
		return b.NewArray()
	}
	b := array.NewInt64Builder(t.mem)
	defer b.Release()
	b.AppendValues(t.ids, nil)
	return b.NewArray()
}

func (t *table) labelColumn() arrow.Array {
	b := array.NewInt32Builder(t.mem)
	defer b.Release()
	b.AppendValues(t.labels, t.labelled)
	return b.NewArray()
}

// xColumn wraps the value buffer as it is: arrow's builder would append value by value.
func (t *table) xColumn() arrow.Array {
	list := t.schema.Field(colX).Type.(*arrow.FixedSizeListType)
	values := array.NewData(list.Elem(), t.n*t.width, []*memory.Buffer{nil, t.x}, nil, 0, 0)
	defer values.Release()
	data := array.NewData(list, t.n, []*memory.Buffer{nil}, []arrow.ArrayData{values}, 0, 0)
	defer data.Release()
	return array.NewFixedSizeListData(data)
}

func (t *table) statusColumn() arrow.Array {
	b := array.NewStringBuilder(t.mem)
	defer b.Release()
	b.AppendValues(t.status, nil)
	return b.NewArray()
}

func (t *table) reasonColumn() arrow.Array {
	b := array.NewStringBuilder(t.mem)
	defer b.Release()
	for _, reason := range t.reason {
		if reason == "" {
			b.AppendNull()
		} else {
			b.Append(reason)
		}
	}
	return b.NewArray()
}
