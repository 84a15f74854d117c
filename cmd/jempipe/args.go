package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/nearest"
)

// flagsFirst moves the flags of a command before its arguments, since the command line library takes everything after
// the first argument for an argument. "--" ends the flags.
func flagsFirst(args []string, commands []*cli.Command) []string {
	at := slices.IndexFunc(args, func(s string) bool { return findCommand(commands, s) != nil })
	if at < 1 {
		return args
	}
	cmd := findCommand(commands, args[at])
	if len(cmd.Subcommands) > 0 {
		return append(slices.Clone(args[:at]), flagsFirst(args[at:], cmd.Subcommands)...)
	}
	var flags, rest []string
	for i := at + 1; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			rest = append(rest, args[i+1:]...)
			i = len(args)
		case len(arg) > 1 && arg[0] == '-':
			flags = append(flags, arg)
			if takesValue(cmd, arg) && i+1 < len(args) {
				i++
				flags = append(flags, args[i])
			}
		default:
			rest = append(rest, arg)
		}
	}
	out := append(slices.Clone(args[:at+1]), flags...)
	if len(rest) > 0 {
		out = append(append(out, "--"), rest...)
	}
	return out
}

func findCommand(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// takesValue says whether a flag's value is the next argument.
func takesValue(cmd *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, f := range cmd.Flags {
		if slices.Contains(f.Names(), name) {
			_, boolean := f.(*cli.BoolFlag)
			return !boolean
		}
	}
	return false
}

func unknownCommand(c *cli.Context) error {
	name := c.Args().First()
	var known []string
	for _, cmd := range c.App.Commands {
		known = append(known, cmd.Name)
	}
	err := fault.New(fault.Usage, "", "no command %q; there are %s", name, strings.Join(known, ", "))
	if near := nearest.To(name, known); near != "" {
		return err.Do("did you mean %s?", near)
	}
	return err
}

// oneFile is the only argument of a command, or def where none is given and def is not empty.
func oneFile(c *cli.Context, def string) (string, error) {
	switch {
	case c.NArg() == 1:
		return c.Args().First(), nil
	case c.NArg() == 0 && def != "":
		return def, nil
	}
	return "", fault.New(fault.Usage, "", "%s takes one file, got %d arguments %v", c.Command.Name, c.NArg(), c.Args().Slice()).
		Do("see %s --help", c.Command.HelpName)
}

func unknownPage(page string) error {
	return fault.New(fault.Usage, "", "no page %q", page).Do("ask for pipeline or tables")
}
