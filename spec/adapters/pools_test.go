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

// providers contains the providers of this repository that paks need, by adapter.
var providers = map[string]string{"ondemand": "directory"}

// smallPlan is the id of the generic adapter's small plan.
const smallPlan = "b478e908-a49d-5516-ab61-0400d0a4a4a7"

// The generic adapter records the values taken from its pools in one file. The pak uses a directory of the provider.

// pools returns the setting that contains the path of the pak's pools.
func pools(p *player) []string { return []string{"ONDEMAND_POOLS=" + p.poolsDir()} }

// poolsDir returns the directory of the pak's pools.
func (p *player) poolsDir() string { return filepath.Join(p.dir, "pools") }

// holdings are the values taken from pools: sorted values by deployments by pools, which are called plan/key or
// plan/key/group.
type holdings = object

// held converts the recorded adapter's file.
func held(store any) holdings {
	all := holdings{}
	for _, pool := range value.Mappings(at(store, "/inputs")) {
		for _, used := range value.Mappings(pool["used"]) {
			_, key, _ := strings.Cut(value.Text(pool["key"]), ".")
			poolName := strings.TrimSuffix(filepath.Join(value.Text(pool["plan"]), key, value.Text(used["group"])), "/")
			for _, item := range used["values"].([]any) {
				holdValue(all, poolName, value.Text(used["deployment"]), value.Text(item))
			}
		}
	}
	return all
}

// holdValue adds a value of a pool to those of an owner, and keeps them sorted.
func holdValue(all holdings, poolName, owner, item string) {
	owners, _ := all[poolName].(object)
	if owners == nil {
		owners = object{}
		all[poolName] = owners
	}
	list, _ := owners[owner].([]any)
	list = append(list, item)
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(value.Text(a), value.Text(b)) })
	owners[owner] = list
}

// fillPools restores the values that were taken before the case.
func (p *player) fillPools() {
	GinkgoHelper()
	for poolName, owners := range held(p.Input["store"]) {
		dir := filepath.Join(p.poolsDir(), poolName)
		Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
		for owner, list := range owners.(object) {
			for _, item := range list.([]any) {
				Expect(os.WriteFile(filepath.Join(dir, "value-"+url.PathEscape(value.Text(item))), []byte(owner),
					0o600)).To(Succeed())
			}
		}
	}
}

// heldHere returns the values taken from the pak's pools.
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
		poolName, err := filepath.Rel(p.poolsDir(), filepath.Dir(path))
		holdValue(all, poolName, string(owner), item)
		return err
	})).To(Succeed())
	return all
}

// hasSingleValues reports whether a pool of the plan contains values that are not in a range.
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

// comparePools compares the values taken after the case.
func (p *player) comparePools() []difference {
	if p.Command != "generate-manifest" || p.Adapter != "ondemand" {
		return nil
	}
	return differences("/store", held(p.Held), p.heldHere())
}

// creation returns the first recorded creation with another instance and with a plan whose only pool has three
// addresses of each network.
func creation(id string) recorded {
	c := caseOf("ondemand", "01-create-small")
	set(c.Input["service_deployment"], "/deployment_name", "service-instance_"+id)
	set(c.Input["plan"], "/properties/keepalived", object{"vip": "10.1.0.10-10.1.0.12 | 10.2.0.10, 10.2.0.8-10.2.0.9"})
	return c
}

// create creates another instance with the same pools.
func (p *player) create(ctx context.Context, id string) binary.Answer {
	GinkgoHelper()
	another := *p
	another.recorded = creation(id)
	return another.play(ctx)
}

// start starts such a creation in the background.
func (p *player) start(id string) *process.Running {
	GinkgoHelper()
	c := creation(id)
	another := player{recorded: c, dir: p.dir}
	input, err := odb.Input("generate-manifest", another.generate(c.Input["plan"], nil, "", c.request()))
	Expect(err).NotTo(HaveOccurred())
	return process.Start(p.adapter(), nil, input, "generate-manifest")
}

// waitsForLock reports whether a process waits for the lock of a pool, according to the kernel's list.
func (p *player) waitsForLock(pool string) bool {
	GinkgoHelper()
	info, err := os.Stat(filepath.Join(pool, ".lock"))
	Expect(err).NotTo(HaveOccurred())
	locks, err := os.ReadFile("/proc/locks")
	Expect(err).NotTo(HaveOccurred())
	waiting := regexp.MustCompile(fmt.Sprintf(`(?m)-> FLOCK .*:%d 0 EOF$`, info.Sys().(*syscall.Stat_t).Ino))
	return waiting.Match(locks)
}

// vips is the path of the pool of addresses in net2.
const vips = smallPlan + "/vip/net2"

var _ = Describe("A pool", func() {
	It("gives no value to two instances, also concurrently, and rejects a request when it is empty",
		func(ctx context.Context) {
			p := newPlayer(creation("0"))
			var got [4]binary.Answer
			var all []func()
			for i := range got {
				all = append(all, func() { got[i] = p.create(ctx, fmt.Sprint(i)) })
			}
			process.Together(len(all), all...)
			assigned, refused := []any{}, 0
			for i, answer := range got {
				if answer.Exit != 0 {
					refused++
					Expect(answer.Stdout).To(Equal("no value is free in a pool of the plan; ask the operator for more"))
					continue
				}
				vip := at(treeOf(manifestOf(answer.Stdout)), "/properties/keepalived/vip")
				assigned = append(assigned, vip)
				Expect(p.heldHere()[vips]).To(HaveKeyWithValue(fmt.Sprintf("service-instance_%d", i), []any{vip}))
			}
			Expect(refused).To(Equal(1))
			Expect(assigned).To(ConsistOf("10.2.0.10", "10.2.0.8", "10.2.0.9"))
		})

	It("is read by one creation at a time", func(ctx context.Context) {
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

	It("gets the values of an instance back when the instance is destroyed", func(ctx context.Context) {
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

	It("gives the same value again to a creation that was killed before its state was stored",
		func(ctx context.Context) {
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

	It("keeps the value of an instance if the operator removes the value, and gives one of another network on request",
		func(ctx context.Context) {
			p := newPlayer(creation("one"))
			plan := p.Input["plan"]
			manifest := manifestOf(p.create(ctx, "one").Stdout)
			other := value.CloneMap(plan.(object))
			set(other, "/properties/keepalived/vip", "10.1.0.10-10.1.0.12 | 10.2.0.30-10.2.0.40")
			update := func(network string) any {
				body := value.CloneMap(p.request())
				set(body, "/parameters/metadata/network", network)
				got := p.call(ctx, "generate-manifest", p.generate(other, plan, manifest, body))
				Expect(got.Exit).To(Equal(0), got.Stderr)
				manifest = manifestOf(got.Stdout)
				Expect(odb.SameManifests(manifest, p.pending(ctx, other, manifest))).To(BeTrue())
				return at(treeOf(manifest), "/properties/keepalived/vip")
			}
			Expect(update("net2")).To(Equal("10.2.0.10"))
			Expect(update("net1")).To(Equal("10.1.0.10"))
			Expect(p.heldHere()).To(Equal(holdings{smallPlan +
				"/vip/net1": object{"service-instance_one": []any{"10.1.0.10"}}}))
		})
})
