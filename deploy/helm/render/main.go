// Render renders tare's chart with the library of Helm, and writes of its default values
// what kustomize starts from, so that both have one source.
//
//	go run . -kustomize ../../kustomize/base   # make kubernetes-manifests
//	go run . -values FILE                      # all objects, on standard output
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

func main() {
	chart := flag.String("chart", "../tare", "`folder` of the chart")
	values := flag.String("values", "", "`file` of values")
	kustomize := flag.String("kustomize", "", "`folder` that kustomize starts from: write it")
	name := flag.String("name", "tare", "`name` of the release")
	namespace := flag.String("namespace", "tare", "`namespace` of the release")
	flag.Parse()
	objects, err := render(*chart, *values, *name, *namespace)
	if err == nil && *kustomize != "" {
		err = write(*kustomize, *namespace, objects)
	} else if err == nil {
		for _, file := range slices.Sorted(maps.Keys(objects)) {
			fmt.Printf("---\n# %s\n%s\n", file, objects[file])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

// render returns the objects by the name of their template. Values must keep to the
// chart's schema.
func render(folder, valuesFile, name, namespace string) (map[string]string, error) {
	c, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	values := chartutil.Values{}
	if valuesFile != "" {
		if values, err = chartutil.ReadValuesFile(valuesFile); err != nil {
			return nil, err
		}
	}
	release := chartutil.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for file, text := range files {
		if strings.HasSuffix(file, ".yaml") && strings.TrimSpace(text) != "" {
			out[path.Base(file)] = strings.TrimSpace(text) + "\n"
		}
	}
	return out, nil
}

// write writes the objects and the list of them.
func write(folder, namespace string, objects map[string]string) error {
	const made = "# Made from deploy/helm/tare by: make kubernetes-manifests\n"
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	list := made + "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: " + namespace + "\nresources:\n"
	for _, file := range slices.Sorted(maps.Keys(objects)) {
		list += "- " + file + "\n"
		if err := os.WriteFile(filepath.Join(folder, file), []byte(made+objects[file]), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(list), 0o644)
}
