package adapters_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/internal/value"
	binary "service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/hold"
	"service-adapter/spec/kit/process"
)

// providers are the providers of this repository that paks need.
var providers = map[string]string{"ondemand": "directory"}

// smallPlan is the id of the generic adapter's small plan.
const smallPlan = "b478e908-a49d-5516-ab61-0400d0a4a4a7"

// The generic adapter keeps what is taken of its pools in a file of its own, the pak in a directory of the provider.

// pools tells the pak where its pools are.
func pools(p *player) []string { return []string{"ONDEMAND_POOLS=" + p.poolsDir()} }

func (p *player) poolsDir() string { return filepath.Join(p.dir, "pools") }

// holdings are what is taken: plan/key, or plan/key/group → deployment → values, sorted.
type holdings = object

// held reads the recorded adapter's file.
func held(store any) holdings {
	all := holdings{}
	for _, pool := range value.Mappings(at(store, "/inputs")) {
		for _, used := range value.Mappings(pool["used"]) {
			_, key, _ := strings.Cut(value.Text(pool["key"]), ".")
			place := strings.TrimSuffix(filepath.Join(value.Text(pool["plan"]), key, value.Text(used["group"])), "/")
			for _, item := range used["values"].([]any) {
				holdValue(all, place, value.Text(used["deployment"]), value.Text(item))
			}
		}
	}
	return all
}

func holdValue(all holdings, place, owner, item string) {
	owners, _ := all[place].(object)
	if owners == nil {
		owners = object{}
		all[place] = owners
	}
	list, _ := owners[owner].([]any)
	list = append(list, item)
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(value.Text(a), value.Text(b)) })
	owners[owner] = list
}

// fillPools lets the case begin with what was taken then.
func (p *player) fillPools() {
	GinkgoHelper()
	for place, owners := range held(p.Input["store"]) {
		dir := filepath.Join(p.poolsDir(), place)
		Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
		for owner, list := range owners.(object) {
			for _, item := range list.([]any) {
				Expect(os.WriteFile(filepath.Join(dir, "value-"+url.PathEscape(value.Text(item))), []byte(owner),
					0o600)).To(Succeed())
			}
		}
	}
}

// heldHere reads the pak's pools.
func (p *player) heldHere() holdings {
	GinkgoHelper()
	all := holdings{}
	Expect(filepath.WalkDir(p.poolsDir(), func(path string, _ os.DirEntry, err error) error {
		item, is := strings.CutPrefix(filepath.Base(path), "value-")
		if os.IsNotExist(err) || !is {
			return nil
		}
		owner, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if item, err = url.PathUnescape(item); err != nil {
			return err
		}
		place, err := filepath.Rel(p.poolsDir(), filepath.Dir(path))
		holdValue(all, place, string(owner), item)
		return err
	})).To(Succeed())
	return all
}

// hasSingleValues tells whether a pool of the plan is not of ranges alone.
func (c recorded) hasSingleValues() bool {
	for _, key := range []string{"vip", "virtual_router_id", "ports"} {
		text := value.Text(at(c.Input, "/plan/properties/keepalived/"+key))
		for _, part := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("|,", r) }) {
			if !strings.Contains(part, "-") {
				return true
			}
		}
	}
	return false
}

// comparePools compares what is taken after the case.
func (p *player) comparePools() []difference {
	if p.Command != "generate-manifest" || p.Adapter != "ondemand" {
		return nil
	}
	return differences("/store", held(p.Held), p.heldHere())
}

// creation is the first recorded creation for another instance, of a plan whose only pool has three addresses of each
// network.
func creation(id string) recorded {
	c := caseOf("ondemand", "01-create-small")
	set(c.Input["service_deployment"], "/deployment_name", "service-instance_"+id)
	set(c.Input["plan"], "/properties/keepalived", object{"vip": "10.1.0.10-10.1.0.12 | 10.2.0.10, 10.2.0.8-10.2.0.9"})
	return c
}

// create is a creation of another instance beside those that the player has.
func (p *player) create(ctx context.Context, id string) binary.Answer {
	GinkgoHelper()
	beside := *p
	beside.recorded = creation(id)
	return beside.play(ctx)
}

// start begins such a creation in the background.
func (p *player) start(id string) *process.Running {
	GinkgoHelper()
	c := creation(id)
	beside := player{recorded: c, dir: p.dir}
	input, err := odb.Input("generate-manifest", beside.generate(c.Input["plan"], nil, "", c.request()))
	Expect(err).NotTo(HaveOccurred())
	return process.Start(p.adapter(), nil, input, "generate-manifest")
}

// waitsForLock tells whether a process waits for the lock of a pool, as the kernel lists it.
func (p *player) waitsForLock(pool string) bool {
	GinkgoHelper()
	info, err := os.Stat(filepath.Join(pool, ".lock"))
	Expect(err).NotTo(HaveOccurred())
	locks, err := os.ReadFile("/proc/locks")
	Expect(err).NotTo(HaveOccurred())
	waiting := regexp.MustCompile(fmt.Sprintf(`(?m)-> FLOCK .*:%d 0 EOF$`, info.Sys().(*syscall.Stat_t).Ino))
	return waiting.Match(locks)
}

// vips is the pool of addresses in net2.
const vips = smallPlan + "/vip/net2"

var _ = Describe("A pool", func() {
	It("gives no value to two instances, also at the same time, and refuses when it is empty",
		func(ctx context.Context) {
			p := newPlayer(creation("0"))
			var got [4]binary.Answer
			var all []func()
			for i := range got {
				all = append(all, func() { got[i] = p.create(ctx, fmt.Sprint(i)) })
			}
			process.Together(len(all), all...)
			given, refused := []any{}, 0
			for i, answer := range got {
				if answer.Exit != 0 {
					refused++
					Expect(answer.Stdout).To(Equal("no value is free in a pool of the plan; ask the operator for more"))
					continue
				}
				vip := at(treeOf(manifestOf(answer.Stdout)), "/properties/keepalived/vip")
				given = append(given, vip)
				Expect(p.heldHere()[vips]).To(HaveKeyWithValue(fmt.Sprintf("service-instance_%d", i), []any{vip}))
			}
			Expect(refused).To(Equal(1))
			Expect(given).To(ConsistOf("10.2.0.10", "10.2.0.8", "10.2.0.9"))
		})

	It("is looked into by one creation at a time", func(ctx context.Context) {
		p := newPlayer(creation("one"))
		dir := filepath.Join(p.poolsDir(), vips)
		Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
		point := hold.Point{Name: "taking", Dir: dir, Provider: true}
		point.Hold()
		first := p.start("one")
		waits := point.Reached()
		second := p.start("two")
		Eventually(func() bool { return p.waitsForLock(dir) || point.Reached() != waits }).Should(BeTrue())
		point.Release()
		Expect(first.Wait().Exit).To(Equal(0))
		Expect(second.Wait().Exit).To(Equal(0))
		Expect(p.heldHere()[vips]).To(Equal(object{
			"service-instance_one": []any{"10.2.0.10"},
			"service-instance_two": []any{"10.2.0.8"},
		}))
	})

	It("gets back what an instance has when that is destroyed", func(ctx context.Context) {
		p := newPlayer(creation("one"))
		Expect(p.create(ctx, "one").Exit).To(Equal(0))
		Expect(p.create(ctx, "two").Exit).To(Equal(0))
		destroyed, err := p.adapter().Run(ctx, "", "instance", "destroy", "one")
		Expect(err).NotTo(HaveOccurred())
		Expect(destroyed.Exit).To(Equal(0), destroyed.Stderr)
		Expect(p.heldHere()).To(Equal(holdings{vips: object{"service-instance_two": []any{"10.2.0.8"}}}))
		third := p.create(ctx, "three")
		Expect(at(treeOf(manifestOf(third.Stdout)), "/properties/keepalived/vip")).To(Equal("10.2.0.10"))
	})

	It("gives the same value again to a creation that was killed before anybody knew of it", func(ctx context.Context) {
		p := newPlayer(creation("one"))
		dir := filepath.Join(p.poolsDir(), vips)
		Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
		point := hold.Point{Name: "after-create", Dir: dir, Provider: true}
		point.Hold()
		killed := p.start("one")
		point.Reached()
		process.End(p.dir)
		Expect(killed.Wait().Exit).To(Equal(-1))
		Expect(os.Remove(filepath.Join(dir, ".hold-after-create"))).To(Succeed())
		taken := p.heldHere()
		Expect(taken).To(Equal(holdings{vips: object{"service-instance_one": []any{"10.2.0.10"}}}))

		Expect(p.create(ctx, "two").Exit).To(Equal(0))
		again := p.create(ctx, "one")
		Expect(again.Exit).To(Equal(0), again.Stderr)
		Expect(at(treeOf(manifestOf(again.Stdout)), "/properties/keepalived/vip")).To(Equal("10.2.0.10"))
		Expect(p.heldHere()[vips]).To(HaveLen(2))
	})

	It("leaves an instance its value when the operator makes it another one, and gives one of another network "+
		"with that", func(ctx context.Context) {
		p := newPlayer(creation("one"))
		plan := p.Input["plan"]
		made := manifestOf(p.create(ctx, "one").Stdout)
		other := value.CloneMap(plan.(object))
		set(other, "/properties/keepalived/vip", "10.1.0.10-10.1.0.12 | 10.2.0.30-10.2.0.40")
		update := func(network string) any {
			body := value.CloneMap(p.request())
			set(body, "/parameters/metadata/network", network)
			got := p.call(ctx, "generate-manifest", p.generate(other, plan, made, body))
			Expect(got.Exit).To(Equal(0), got.Stderr)
			made = manifestOf(got.Stdout)
			Expect(odb.SameManifests(made, p.pending(ctx, other, made))).To(BeTrue())
			return at(treeOf(made), "/properties/keepalived/vip")
		}
		Expect(update("net2")).To(Equal("10.2.0.10"))
		Expect(update("net1")).To(Equal("10.1.0.10"))
		Expect(p.heldHere()).To(Equal(holdings{smallPlan +
			"/vip/net1": object{"service-instance_one": []any{"10.1.0.10"}}}))
	})
})
