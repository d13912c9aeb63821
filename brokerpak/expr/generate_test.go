package expr_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak/expr"
)

var _ = Describe("generated values", func() {
	It("counts within the scope", func() {
		scope := &expr.Scope{}
		Expect(parse(`${counter.next()},${counter.next()},${counter.next()}`).Eval(scope)).To(Equal("1,2,3"))
		Expect(parse(`${false ? counter.next() : counter.next()}`).Eval(scope)).To(Equal("5"))
		Expect(parse(`${counter.next()}`).Eval(&expr.Scope{})).To(Equal("1"))
		Expect(parse(`${counter.next()}`).Eval(&expr.Scope{Counter: func() int64 { return 40 }})).To(Equal("40"))
	})

	It("reads the clock and the randomness of the scope", func() {
		scope := &expr.Scope{
			Rand: strings.NewReader("\xfb\xff\xfe"),
			Now:  func() time.Time { return time.Unix(1, 5) },
		}
		Expect(parse(`${rand.base64(3)} ${time.nano()}`).Eval(scope)).To(Equal("-__- 1000000005"))
		_, err := parse(`${rand.base64(1)}`).Eval(scope)
		Expect(err).To(MatchError("svc.yml:12:12: rand.base64: reading random bytes: EOF"))
	})

	It("makes random text of its own accord", func() {
		first, err := parse(`${rand.base64(16)}`).Eval(&expr.Scope{})
		Expect(err).NotTo(HaveOccurred())
		Expect(first).To(HaveLen(24))
		Expect(parse(`${rand.base64(16)}`).Eval(&expr.Scope{})).NotTo(Equal(first))
	})

	It("lets the owner carry values over by call", func() {
		template := parse(`${rand.base64(2)} ${rand.base64(2)} ${counter.next() + 1} ${time.nano()}`)
		kept := vars{"rand.base64#2": "kept", "counter.next#1": int64(41)}
		var made []string
		scope := &expr.Scope{
			Rand: strings.NewReader("\x00\x00"),
			Now:  func() time.Time { return time.Unix(0, 7) },
			Generate: func(call string, create func() (any, error)) (any, error) {
				if value, ok := kept[call]; ok {
					return value, nil
				}
				made = append(made, call)
				return create()
			},
		}
		Expect(template.Eval(scope)).To(Equal("AAA= kept 42 7"))
		Expect(made).To(Equal([]string{"rand.base64#1", "time.nano#1"}))
		kept["rand.base64#1"], kept["counter.next#1"] = "kept", "x"
		_, err := template.Eval(scope)
		Expect(err).To(MatchError(ContainSubstring("counter.next: the result is no int")))
	})
})
