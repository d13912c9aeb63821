package expr_test

import (
	"fmt"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

func Example() {
	template, err := expr.Parse(expr.Source{
		Text: `redis://${instance.details["host"]}:${instance.details["port"]}/${lookup(request.plan_properties, ` +
			`"db", 0)}`,
		Pos: diag.Pos{File: "redis.yml", Line: 40, Column: 14},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	uri, err := template.Eval(&expr.Scope{Variables: map[string]any{
		"instance.details": map[string]any{
			"host": "10.0.0.4", "port": int64(6379),
			"replicas": []any{"10.0.0.5"},
		},
		"request.plan_properties": map[string]any{},
	}})
	fmt.Println(uri, err)
	// Output: redis://10.0.0.4:6379/0 <nil>
}

func ExampleTemplate_Eval_error() {
	template, err := expr.Parse(expr.Source{
		Text: `name-${str.truncate(-1, request.instance_id)}`,
		Pos:  diag.Pos{File: "svc.yml", Line: 12, Column: 19},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = template.Eval(&expr.Scope{Variables: map[string]any{"request.instance_id": "8f3c"}})
	fmt.Println(err)
	// Output: svc.yml:12:26: str.truncate: count must not be negative
}

func ExampleTemplate_Check() {
	template, err := expr.Parse(expr.Source{Text: "${regoin}", Pos: diag.Pos{File: "svc.yml", Line: 3, Column: 14}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(template.Check(expr.Names{Variables: []string{"region", "request.instance_id"}}).Err())
	// Output: svc.yml:3:16: unknown variable "regoin"; did you mean "region"? [unknown-variable]
}

func ExampleCast() {
	for _, typ := range []string{"string", "integer", "number", "boolean", "array"} {
		fmt.Println(expr.Cast("1", typ))
	}
	// Output:
	// 1 <nil>
	// 1 <nil>
	// 1 <nil>
	// true <nil>
	// <nil> converting to array: expected an array, found an integer
}
