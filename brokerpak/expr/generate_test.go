package expr_test

import (
	"encoding/base64"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak/expr"
)

var _ = Describe("generated values", func() {
	It("include the next number of the scope's counter", func() {
		count := int64(0)
		scope := &expr.Scope{Counter: func() int64 { count++; return count }}
		Expect(parse(`${counter.next()},${counter.next()},${counter.next()}`).Eval(scope)).To(Equal("1,2,3"))
		Expect(parse(`${false ? counter.next() : counter.next()}`).Eval(scope)).To(Equal("5"))
		_, err := parse(`${counter.next()}`).Eval(&expr.Scope{})
		Expect(err).To(MatchError("svc.yml:12:12: counter.next: no counter is available here"))
	})

	It("include the current time", func() {
		before := time.Now().UnixNano()
		text, err := parse(`${time.nano()}`).Eval(&expr.Scope{})
		Expect(err).NotTo(HaveOccurred())
		nano, err := strconv.ParseInt(text.(string), 10, 64)
		Expect(err).NotTo(HaveOccurred())
		Expect(nano).To(And(BeNumerically(">=", before), BeNumerically("<=", time.Now().UnixNano())))
	})

	It("are random if the scope does not generate them", func() {
		first, err := parse(`${rand.base64(16)}`).Eval(&expr.Scope{})
		Expect(err).NotTo(HaveOccurred())
		Expect(base64.URLEncoding.DecodeString(first.(string))).To(HaveLen(16))
		Expect(parse(`${rand.base64(16)}`).Eval(&expr.Scope{})).NotTo(Equal(first))
	})

	It("can be reused by the owner of the scope", func() {
		template := parse(`${rand.base64(2)} ${rand.base64(2)} ${counter.next() + 1} ${time.nano()}`)
		kept := vars{"rand.base64#2": "kept", "counter.next#1": int64(41)}
		var created []string
		scope := &expr.Scope{
			Generate: func(call string, create func() (any, error)) (any, error) {
				if value, ok := kept[call]; ok {
					return value, nil
				}
				created = append(created, call)
				return create()
			},
		}
		Expect(template.Eval(scope)).To(MatchRegexp(`^[\w-]{3}= kept 42 \d+$`))
		Expect(created).To(Equal([]string{"rand.base64#1", "time.nano#1"}))
		kept["rand.base64#1"], kept["counter.next#1"] = "kept", "x"
		_, err := template.Eval(scope)
		Expect(err).To(MatchError(ContainSubstring("counter.next: the result is not an int")))
	})
})
