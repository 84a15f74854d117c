package outputs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/jempipe/jempipe/internal/fault"
)

// Part is one file of a table that is split into several.
type Part struct {
	Path         string
	Index, Count int   // part Index of Count, from 0
	Rows         int64 // as the footer says
}

// PartName is the file name of part index of count, such as part-00000-of-00004.parquet.
func PartName(index, count int) string {
	return fmt.Sprintf("part-%05d-of-%05d.parquet", index, count)
}

var partName = regexp.MustCompile(`^part-(\d{5,})-of-(\d{5,})\.parquet$`)

// Parts lists the parts in a folder in order. A missing part, parts of two different counts, and a folder without
// parts are errors of kind fault.Data.
func Parts(dir string) ([]Part, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, unreadable(dir, err)
	}
	var parts []Part
	for _, e := range entries { // in name order, which five or more digits keep equal to index order up to 99,999 parts
		m := partName.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		index, errIndex := strconv.Atoi(m[1])
		count, errCount := strconv.Atoi(m[2])
		if errIndex != nil || errCount != nil || index != len(parts) || len(parts) > 0 && count != parts[0].Count {
			return nil, fault.New(fault.Data, filepath.Join(dir, e.Name()), "parts do not follow each other").
				Do("remove the folder and run the stage again")
		}
		rows, err := Rows(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		parts = append(parts, Part{filepath.Join(dir, e.Name()), index, count, rows})
	}
	if len(parts) == 0 || len(parts) != parts[0].Count {
		want := "at least one part-*.parquet"
		if len(parts) > 0 {
			want = strconv.Itoa(parts[0].Count)
		}
		return nil, fault.New(fault.Data, dir, "%d parts, wanted %s", len(parts), want).
			Do("remove the folder and run the stage again")
	}
	return parts, nil
}

// Rows is the number of rows that a Parquet file's footer states.
func Rows(path string) (n int64, err error) {
	defer recovered(path, &err)
	f, err := os.Open(path)
	if err != nil {
		return 0, unreadable(path, err)
	}
	defer f.Close()
	file, err := open(f, path)
	if err != nil {
		return 0, err
	}
	return file.NumRows(), nil
}
