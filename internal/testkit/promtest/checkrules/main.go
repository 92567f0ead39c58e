// Command checkrules reads a file of rules by Prometheus' own parser, and writes the
// names of the metrics that their expressions, and those on standard input, one a
// line, select. It is a module of its own, so that tare does not depend on Prometheus.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file string) error {
	p := parser.NewParser(parser.Options{})
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, p, slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	var all []string
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			all = append(all, r.Expr)
		}
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		all = append(all, in.Text())
	}
	for _, text := range all {
		expr, err := p.ParseExpr(text)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if s, ok := n.(*parser.VectorSelector); ok {
				fmt.Println(s.Name)
			}
			return nil
		})
	}
	return nil
}
