package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestErrorTellsPlaceCauseAndRemedy(t *testing.T) {
	err := New(Data, "a.parquet: row 7, column x", "list of %d values, wanted %d", 63, 64).
		Because(io.ErrUnexpectedEOF).Do("fix the row")
	const want = "a.parquet: row 7, column x: list of 63 values, wanted 64: unexpected EOF; fix the row"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the cause is not found by errors.Is")
	}
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("plain"), 1},
		{New(Internal, "", "x"), 1},
		{New(Usage, "", "x"), 2},
		{New(Config, "", "x"), 3},
		{fmt.Errorf("stage infer: %w", New(Data, "", "x")), 4},
		{fmt.Errorf("stage infer: %w", context.Canceled), 130},
		{New(Data, "", "x").Because(context.Canceled), 130},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("ExitCode(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

func TestRecoveredTurnsAPanicIntoAnError(t *testing.T) {
	var none []int
	err := Recovered(func() error { _ = none[3]; return nil })()
	if err == nil || KindOf(err) != Internal || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("error %v", err)
	}
	if err := Recovered(func() error { return io.EOF })(); err != io.EOF {
		t.Errorf("error %v, want io.EOF", err)
	}
}
