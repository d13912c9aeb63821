package yamlnode_test

import (
	"os"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/yamlnode"
)

func BenchmarkParse(b *testing.B) {
	redis, err := os.ReadFile("../../examples/redis/redis.yml")
	if err != nil {
		b.Fatal(err)
	}
	for _, text := range []struct{ name, text string }{
		{"redis", string(redis)}, {"template", largeTemplate()}, {"definition", largeDefinition()},
	} {
		b.Run(text.name+"/yamlnode", func(b *testing.B) {
			b.SetBytes(int64(len(text.text)))
			for b.Loop() {
				if _, err := yamlnode.Parse(text.text); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(text.name+"/yaml.v3", func(b *testing.B) {
			b.SetBytes(int64(len(text.text)))
			for b.Loop() {
				var document yaml.Node
				if err := yaml.NewDecoder(strings.NewReader(text.text)).Decode(&document); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
