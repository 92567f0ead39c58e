// Package schematest compiles the JSON Schemas that tare publishes.
package schematest

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Compile compiles what stands at a JSON pointer in the text of a schema, "" for all of it.
func Compile(t testing.TB, text, pointer string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json#" + pointer)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
