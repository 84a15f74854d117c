package outputs

import (
	"reflect"
	"testing"
)

// Every detector has its own pair of columns, and the accessors reach them.
func TestEveryDetectorHasColumns(t *testing.T) {
	var p Prediction[int64]
	v := reflect.ValueOf(&p).Elem()
	column := func(name string) uintptr {
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Tag.Get("parquet") == name+",optional" {
				return v.Field(i).Addr().Pointer()
			}
		}
		t.Fatalf("no column %s", name)
		return 0
	}
	for _, d := range Detectors() {
		if p.OOD(d) == nil || reflect.ValueOf(p.OOD(d)).Pointer() != column("ood_"+d) {
			t.Errorf("OOD(%q) is not column ood_%s", d, d)
		}
		if p.Flag(d) == nil || reflect.ValueOf(p.Flag(d)).Pointer() != column("flag_"+d) {
			t.Errorf("Flag(%q) is not column flag_%s", d, d)
		}
	}
	if p.OOD("none") != nil || p.Flag("none") != nil {
		t.Error("an unknown detector has a column")
	}
}
