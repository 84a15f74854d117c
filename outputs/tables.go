// Package outputs holds what a run leaves behind: the Parquet tables, each a Go struct whose tags are its schema and
// its documentation, and the atomic commit of a stage's directory.
package outputs

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/parquet-go/parquet-go"
)

// SchemaVersion is the version of all tables together. It changes when a column is added (minor) or when a column
// changes its meaning or goes away (major).
const SchemaVersion = "1.1.0"

// TableDoc describes one table.
type TableDoc struct {
	Name    string // also the file name without .parquet
	Path    string // where it lies in a stage's directory
	Row     string // what one row is
	Columns []ColumnDoc
}

// ColumnDoc describes one column.
type ColumnDoc struct {
	Name     string
	Type     string // as in the Parquet schema, such as int32, double, binary (STRING) or list<float>
	Nullable bool
	Doc      string // unit, range and null rule
}

// table is one entry of the catalogue.
type table struct {
	name, row string
	model     reflect.Type
}

// catalogue lists every table in the order of the documentation.
var catalogue = []table{
	{"predictions", "one input row: what the model said about it. Rows stand in the order of the source.", reflect.TypeFor[Prediction[int64]]()},
	{"ood_metrics", "one metric of one detector on one pair of data sets.", reflect.TypeFor[OODMetric]()},
	{"roc", "one corner of the ROC curve of one detector on one pair of data sets.", reflect.TypeFor[ROC]()},
	{"thresholds", "the ready-made decision threshold of one detector.", reflect.TypeFor[Threshold]()},
	{"histograms", "one bin of the histogram of one score on one data set.", reflect.TypeFor[Histogram]()},
	{"calibration_metrics", "one metric of one data set under one calibration map.", reflect.TypeFor[CalibrationMetric]()},
	{"calibration_bins", "one bin of a reliability diagram.", reflect.TypeFor[CalibrationBin]()},
	{"recalibration", "one fitted parameter of one calibration map.", reflect.TypeFor[Recalibration]()},
	{"risk_coverage", "one point of a risk-coverage curve.", reflect.TypeFor[RiskCoverage]()},
	{"confusion", "one cell of the confusion matrix of one labelled data set.", reflect.TypeFor[Confusion]()},
	{"per_class", "one true class of one labelled data set.", reflect.TypeFor[PerClass]()},
	{"training", "one logged training step.", reflect.TypeFor[Training]()},
	{"energies", "one row or chain with its energy at the end of training.", reflect.TypeFor[Energy]()},
	{"samples", "one kept state of one SGLD chain.", reflect.TypeFor[Sample]()},
}

// Tables describes every table, for documentation and for checks by other tools.
func Tables() []TableDoc {
	docs := make([]TableDoc, 0, len(catalogue))
	for _, t := range catalogue {
		path := "tables/" + t.name + ".parquet"
		if t.name == "predictions" {
			path = "predictions/dataset=NAME/part-00000-of-00004.parquet"
		}
		docs = append(docs, TableDoc{Name: t.name, Path: path, Row: t.row, Columns: columnDocs(t.model)})
	}
	return docs
}

// MarkdownTables is the body of docs/tables.md: a section per table.
func MarkdownTables() string {
	var b strings.Builder
	for i, t := range Tables() {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\nOne row is %s Path: `%s`.\n\n", t.Name, t.Row, t.Path)
		b.WriteString("| column | type | null | meaning |\n| --- | --- | --- | --- |\n")
		for _, c := range t.Columns {
			null := "no"
			if c.Nullable {
				null = "yes"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Name, c.Type, null, strings.ReplaceAll(c.Doc, "|", `\|`))
		}
	}
	return b.String()
}

// Detectors are the names, without the prefix ood_, of the detectors that predictions has a column for, in order.
func Detectors() []string { return slices.Clone(detectors()) }

var detectors = sync.OnceValue(func() (names []string) {
	for _, c := range columnDocs(reflect.TypeFor[Prediction[int64]]()) {
		if name, ok := strings.CutPrefix(c.Name, "ood_"); ok {
			names = append(names, name)
		}
	}
	return names
})

// columnDocs reads the columns of a row type from its tags and its Parquet schema.
func columnDocs(model reflect.Type) []ColumnDoc {
	schema := schemaOf(model)
	fields := schema.Fields()
	docs := make([]ColumnDoc, len(fields))
	for i, f := range fields {
		docs[i] = ColumnDoc{Name: f.Name(), Type: typeText(f), Nullable: f.Optional()}
	}
	for i := range model.NumField() {
		field := model.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("parquet"), ",")
		at := slices.IndexFunc(docs, func(d ColumnDoc) bool { return d.Name == name })
		docs[at].Doc = field.Tag.Get("doc")
		if name == "sample_id" {
			docs[at].Type += " or binary (STRING)"
		}
	}
	return docs
}

// typeText is a column's type in the words of a printed Parquet schema.
func typeText(n parquet.Node) string {
	if !n.Leaf() {
		element := n.Fields()[0].Fields()[0]
		return "list<" + typeText(element) + ">"
	}
	kind := strings.ToLower(n.Type().Kind().String())
	if kind == "byte_array" {
		return "binary (STRING)"
	}
	return kind
}

// schemaOf is the Parquet schema of a row type, named after its table.
func schemaOf(model reflect.Type) *parquet.Schema {
	return parquet.NewSchema(tableName(model), parquet.SchemaOf(reflect.New(model).Interface()))
}

// tableName is the name of the table with rows of this type, whatever the type of its ids.
func tableName(model reflect.Type) string {
	generic, _, _ := strings.Cut(model.Name(), "[")
	for _, t := range catalogue {
		if name, _, _ := strings.Cut(t.model.Name(), "["); name == generic {
			return t.name
		}
	}
	return strings.ToLower(generic)
}

// Defined is a pointer to v, or nil for NaN: the way an undefined number becomes a null.
func Defined(v float64) *float64 {
	if v != v {
		return nil
	}
	return &v
}
