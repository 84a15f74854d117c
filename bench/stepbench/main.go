// Command stepbench measures a JEM training step and a chain of 20 SGLD updates, in turns with PyTorch in one run, and
// prints the medians and their ratios. It takes minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/jempipe/jempipe/bench/peers"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "stepbench:", err)
		os.Exit(1)
	}
}

// bench is a run of the program.
type bench struct {
	rt      *ort.Runtime
	torch   *peers.Torch // nil where it is left out
	engines []string
	rounds  int
	best    bool          // the shortest time counts in place of the median
	budget  time.Duration // for one contender in one round
	out     io.Writer
	notes   []string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("stepbench", flag.ContinueOnError)
	python := flags.String("python", "", "interpreter of an environment with PyTorch; empty: it is left out")
	nets := flags.String("nets", "", "networks, comma-separated; empty: all but the largest")
	engines := flags.String("engines", strings.Join(peers.Engines(), ","), "engines, comma-separated")
	threads := flags.Int("threads", 2, "threads of each contender")
	rounds := flags.Int("rounds", 7, "turns of each contender")
	budget := flags.Duration("budget", time.Second, "time of one turn; at least one step is made")
	best := flags.Bool("shortest", false, "compare the shortest times in place of the medians: for a machine that has other work")
	if err := flags.Parse(args); err != nil {
		return err
	}
	list, err := peers.Find(*nets, false)
	if err != nil {
		return err
	}
	rt, err := ort.Open(ort.Config{Provider: "cpu", Threads: *threads}, nil)
	if err != nil {
		return err
	}
	defer rt.Close()
	b := &bench{rt: rt, engines: strings.Split(*engines, ","), rounds: *rounds, best: *best, budget: *budget, out: out}
	kind := "medians"
	if b.best {
		kind = "shortest times"
	}
	fmt.Fprintf(out, "JEM steps, batches of 64 with 20 SGLD updates, %s of %d turns: ONNX Runtime %s, %d threads\n", kind, b.rounds, rt.Info().Library.Version, *threads)
	b.torch, err = peers.StartTorch(ctx, *python, "cpu", *threads)
	switch {
	case errors.Is(err, peers.ErrNotInstalled):
		fmt.Fprintln(out, peers.LeftOut)
	case err != nil:
		return err
	default:
		defer b.torch.Close()
		fmt.Fprintln(out, b.torch.About)
	}
	fmt.Fprintf(out, "%-15s %-6s %-12s %9s", "network", "what", "engine", "ms")
	if b.torch != nil {
		fmt.Fprintf(out, " %9s %7s %11s %9s", "eager ms", "/ ours", "compiled ms", "/ ours")
	}
	fmt.Fprintln(out)
	for _, net := range list {
		if err := b.network(ctx, net, *threads); err != nil {
			return fmt.Errorf("network %s: %w", net.Name, err)
		}
	}
	for _, note := range b.notes {
		fmt.Fprintln(out, note)
	}
	return nil
}

// network measures one network: chains, and steps with each engine.
func (b *bench) network(ctx context.Context, net peers.Net, threads int) error {
	cfg := peers.Config()
	cfg.Shards = threads
	chains, err := b.ours(net, "", cfg.Shards)
	if err != nil {
		return err
	}
	defer chains.Close()
	if b.torch != nil {
		if err := b.load(ctx, net, chains); err != nil {
			return err
		}
	}
	contenders := []*contender{{label: "any", run: func(n int) ([]time.Duration, error) { return chains.Chains(ctx, n) }}}
	b.compare(net.Name, "chain", contenders)
	if err := firstError(contenders); err != nil {
		return err
	}
	contenders = nil
	for _, engine := range b.engines {
		o, err := b.ours(net, engine, cfg.Shards)
		if err != nil {
			return err
		}
		defer o.Close()
		contenders = append(contenders, &contender{label: engine, run: func(n int) ([]time.Duration, error) { return o.Steps(ctx, n) }})
	}
	b.compare(net.Name, "step", contenders)
	return firstError(contenders)
}

func (b *bench) ours(net peers.Net, engine string, shards int) (*peers.Ours, error) {
	arch, params, err := net.Init()
	if err != nil {
		return nil, err
	}
	cfg := peers.Config()
	cfg.Shards = shards
	return peers.NewOurs(b.rt, arch, params, engine, cfg)
}

// load gives PyTorch the network, with the weights that chains has.
func (b *bench) load(ctx context.Context, net peers.Net, chains *peers.Ours) error {
	arch, params, err := net.Init()
	if err != nil {
		return err
	}
	x := peers.Samples(8, arch.Size())
	score, err := chains.Score(ctx, x)
	if err != nil {
		return err
	}
	return b.torch.Load(net.Name, arch, params, peers.Config(), x, score)
}

// contender is what is measured in turns with others.
type contender struct {
	label string
	run   func(n int) ([]time.Duration, error)
	took  []time.Duration
	warm  int // runs of the first turn, which do not count
	err   error
}

// turn measures for about the budget, in the first turn one run. A turn that fails is the contender's last.
func (c *contender) turn(budget time.Duration) {
	if c.err != nil {
		return
	}
	n := 1
	if len(c.took) > 0 {
		n = int(min(max(budget/max(peers.Median(c.took), 1), 1), 20))
	}
	var took []time.Duration
	if took, c.err = c.run(n); c.err == nil {
		c.took = append(c.took, took...)
	}
	if c.warm == 0 {
		c.warm = len(c.took)
	}
}

// compare measures ours and PyTorch's in turns and adds a line of the table for each of ours.
func (b *bench) compare(net, what string, ours []*contender) {
	all := ours
	var theirs []*contender
	if b.torch != nil {
		for _, mode := range []string{"eager", "compile"} {
			theirs = append(theirs, &contender{label: mode, run: func(n int) ([]time.Duration, error) {
				took, _, err := b.torch.Time(net, mode, what, n)
				return took, err
			}})
		}
		all = append(theirs, ours...)
	}
	for range b.rounds + 1 { // the first turn warms up and says how many runs fit into one
		for _, c := range all {
			c.turn(b.budget)
		}
	}
	for _, c := range theirs {
		if c.err != nil {
			b.notes = append(b.notes, fmt.Sprintf("%s, %s: PyTorch's mode %s is left out: %v", net, what, c.label, c.err))
		}
	}
	for _, c := range ours {
		if c.err != nil {
			continue
		}
		m := b.time(c)
		fmt.Fprintf(b.out, "%-15s %-6s %-12s %9.1f", net, what, c.label, m)
		for i, p := range theirs {
			if p.err != nil {
				fmt.Fprintf(b.out, " %*s %*s", []int{9, 11}[i], "-", []int{7, 9}[i], "-")
				continue
			}
			fmt.Fprintf(b.out, " %*.1f %*.2f", []int{9, 11}[i], b.time(p), []int{7, 9}[i], b.time(p)/m)
		}
		fmt.Fprintln(b.out)
	}
}

// time is what counts of a contender's runs, in ms. Those of the first turn do not.
func (b *bench) time(c *contender) float64 {
	took := c.took[c.warm:]
	d := peers.Median(took)
	if b.best && len(took) > 0 {
		d = slices.Min(took)
	}
	return float64(d) / float64(time.Millisecond)
}

func firstError(list []*contender) error {
	for _, c := range list {
		if c.err != nil {
			return c.err
		}
	}
	return nil
}
