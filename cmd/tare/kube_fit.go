package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/kubefit"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/profile"
)

// oneWorkload takes the name of one workload.
func oneWorkload(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError(errors.New("name one workload, such as deployment/shop"))
	}
	return nil
}

// proven reads what a fit has proven.
func proven(file string) (*profile.Profile, error) {
	if file == "" {
		return nil, usageError(errors.New("--profile FILE is missing: tare fit --profile FILE writes it"))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, usageError(err)
	}
	defer f.Close()
	p, err := profile.Parse(io.LimitReader(f, 2<<20))
	if err != nil {
		return nil, usageError(fmt.Errorf("%s: %w", file, err))
	}
	return p, nil
}

func target(text, namespace string) (kubefit.Target, error) {
	w, name, err := kubeapi.ParseWorkload(text)
	if err == nil && !w.Changes() {
		err = fmt.Errorf("%.100q: a fit's answer is for a deployment, statefulset, daemonset or cronjob", text)
	}
	if err != nil {
		return kubefit.Target{}, usageError(err)
	}
	return kubefit.Target{Workload: w, Namespace: namespace, Name: name}, nil
}

func newKubeShowCommand() *cobra.Command {
	var file, format, container, namespace string
	cmd := &cobra.Command{
		Use: "show WORKLOAD", Short: "What a fit has proven, as text to paste", Args: oneWorkload,
		Example: "  tare kube show deployment/shop --profile tare.json --format kustomize",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := proven(file)
			if err != nil {
				return err
			}
			t, err := target(args[0], namespace)
			if err != nil {
				return err
			}
			if container == "" {
				container = t.Name
			}
			if !kubeapi.ValidName(container) || namespace != "" && !kubeapi.ValidName(namespace) {
				return usageError(fmt.Errorf("%.100q or %.100q is no name", container, namespace))
			}
			text, err := kubefit.Show(format, t, kubefit.Of(p, container, ""))
			if err != nil {
				return usageError(err)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "profile", "", "`file` that tare fit --profile has written")
	f.StringVar(&format, "format", "kubernetes", strings.Join(kubefit.Formats(), ", "))
	f.StringVarP(&container, "container", "c", "", "`container` (default: the workload's name)")
	f.StringVarP(&namespace, "namespace", "n", "", "`namespace` (default: none is written)")
	return cmd
}

func newKubeDiffCommand() *cobra.Command {
	var c cluster
	var file string
	var apply, force bool
	cmd := &cobra.Command{
		Use: "diff WORKLOAD", Short: "What applying a fit's answer to a workload would change; with --apply it is applied", Args: oneWorkload,
		Long: `Diff asks the API server what a workload would be with what a fit has proven: memory
limit and request, variables, options. Nothing is changed without --apply, which applies
it on the server as the field manager tare; pods are then replaced as the workload's
strategy says. What JAVA_TOOL_OPTIONS was stays in front. tare kube undo takes it back.

A field that another manager owns is a conflict, and nothing is changed: --force takes it.

Exit codes: 0 done · 1 failure · 2 usage · 3 no such workload or container · 4 no
permission.`,
		Example: "  tare kube diff deployment/shop -n prod --profile tare.json\n  tare kube diff deployment/shop -n prod --profile tare.json --apply",
		RunE: func(cmd *cobra.Command, args []string) error {
			if force && !apply {
				return usageError(errors.New("--force is for --apply"))
			}
			p, err := proven(file)
			if err != nil {
				return err
			}
			return runKubeDiff(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), c, args[0], p, apply, force)
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringVarP(&c.container, "container", "c", "", "`container` (default: the only one)")
	f.StringVar(&file, "profile", "", "`file` that tare fit --profile has written")
	f.BoolVar(&apply, "apply", false, "apply it")
	f.BoolVar(&force, "force", false, "take fields that other managers own")
	return cmd
}

func runKubeDiff(ctx context.Context, w, errs io.Writer, c cluster, name string, p *profile.Profile, apply, force bool) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	t, err := target(name, client.Namespace)
	if err != nil {
		return err
	}
	plan, err := kubefit.Prepare(ctx, client, t, c.container, p)
	switch {
	case errors.Is(err, kubefit.ErrNoContainer):
		return &exitError{exitTarget, fmt.Errorf("%w with -c", err)}
	case err != nil:
		return workloadError(ctx, client, t, err)
	}
	writeChanges(w, plan.Changes)
	for _, d := range plan.Differs {
		complain(errs, fmt.Errorf("the cluster would make it other than asked: %s", d))
	}
	if plan.Answer.Archive != "" {
		complain(errs, fmt.Errorf("the image must have the class archive %q: tare bake puts it in", plan.Answer.Archive))
	}
	if plan.Answer.NoHugePages {
		complain(errs, errors.New("it was proven without huge pages: start the JVM by tare-exec, or the limit does not hold"))
	}
	if !apply || len(plan.Changes) == 0 {
		return nil
	}
	err = plan.Apply(ctx, client, force)
	if kubeapi.IsCode(err, http.StatusConflict) {
		return fmt.Errorf("%w\nnothing was changed; take these fields with --force, or have their owner set them", err)
	}
	if err != nil {
		return workloadError(ctx, client, t, err)
	}
	fmt.Fprintf(w, "applied; take it back with: tare kube undo %s -n %s --apply\n", name, t.Namespace)
	return nil
}

func writeChanges(w io.Writer, all []kubefit.Change) {
	if len(all) == 0 {
		fmt.Fprintln(w, "nothing would change")
	}
	for _, c := range all {
		fmt.Fprintln(w, linux.Printable(c.String()))
	}
}

// workloadError names the rights that are missing.
func workloadError(ctx context.Context, client *kubeapi.Client, t kubefit.Target, err error) error {
	group, _, _ := strings.Cut(t.APIVersion, "/")
	right := kubeapi.Right{Group: group, Resource: t.Resource, Namespace: t.Namespace, Name: t.Name}
	get, patch := right, right
	get.Verb, patch.Verb = "get", "patch"
	return clusterError(ctx, client, err, get, patch)
}

func newKubeUndoCommand() *cobra.Command {
	var c cluster
	var apply bool
	cmd := &cobra.Command{
		Use: "undo WORKLOAD", Short: "What taking back tare kube diff --apply would change; with --apply it is taken back", Args: oneWorkload,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := c.client()
			if err != nil {
				return err
			}
			t, err := target(args[0], client.Namespace)
			if err != nil {
				return err
			}
			changes, err := kubefit.Undo(cmd.Context(), client, t, apply)
			if errors.Is(err, kubefit.ErrNothing) {
				return &exitError{exitTarget, fmt.Errorf("%s: %w", args[0], err)}
			}
			if err != nil {
				return workloadError(cmd.Context(), client, t, err)
			}
			writeChanges(cmd.OutOrStdout(), changes)
			return nil
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&apply, "apply", false, "take it back")
	return cmd
}
