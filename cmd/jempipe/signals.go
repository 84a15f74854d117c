package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/urfave/cli/v2"
)

// watchSignals gives a context that the first SIGINT or SIGTERM cancels; the second one ends the process at once.
// signalled gives the exit code of the signal that came, or 0.
func watchSignals(parent context.Context) (ctx context.Context, stop func(), signalled func() int) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	var code atomic.Int32
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			if code.Load() != 0 {
				os.Exit(int(code.Load()))
			}
			code.Store(130)
			if s == syscall.SIGTERM {
				code.Store(143)
			}
			cancel()
		}
	}()
	stop = func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
	return ctx, stop, func() int { return int(code.Load()) }
}

// signalError is the end of a command that a signal stopped.
type signalError struct {
	code int
	err  error
}

func (e *signalError) Error() string { return e.err.Error() }
func (e *signalError) Unwrap() error { return e.err }

// stoppable lets a signal cancel the context of a command that heeds it.
func stoppable(action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		ctx, stop, signalled := watchSignals(c.Context)
		defer stop()
		c.Context = ctx
		err := action(c)
		if code := signalled(); code != 0 && errors.Is(err, context.Canceled) {
			return &signalError{code, err}
		}
		return err
	}
}
