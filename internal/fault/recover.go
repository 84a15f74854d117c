package fault

import "runtime/debug"

// Recovered is do with a panic turned into an error of kind Internal, which carries the stack. It is for functions that
// run on goroutines of their own, where nobody above could recover.
func Recovered(do func() error) func() error {
	return func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = New(Internal, "", "panic: %v\n%s", p, debug.Stack()).Do("report this as a bug")
			}
		}()
		return do()
	}
}
