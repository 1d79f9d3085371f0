package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// fanOut measures one shared informer with many handlers: what each event costs in all (watch, store, distribution) by
// handler, and the memory of a handler before and after that load: its buffer grows with its backlog, and stays. Without
// handlers it is what watch and store cost, by event. Events come back to back, and then singly: the next when all handlers
// have seen the one before, so that each event finds them asleep.
func fanOut(o options) {
	for _, scale := range []struct{ handlers, events int }{{0, 200_000}, {1, 200_000}, {10, 50_000}, {100, 10_000}, {1000, 2_000}} {
		o.fanOut("fanout", scale.handlers, scale.events, scale.events)
	}
	for _, scale := range []struct{ handlers, events int }{{0, 50_000}, {1, 50_000}, {10, 20_000}, {100, 5_000}, {1000, 500}} {
		o.fanOut("fanout-singly", scale.handlers, scale.events, 1)
	}
}

// fanOut sends so many events, atOnce of them before it waits for the handlers.
func (o options) fanOut(name string, handlers, events, atOnce int) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	const objects = 100
	versions := [2][]*corev1.Pod{o.makePods(objects), o.makePods(objects)}
	for _, pod := range versions[1] {
		pod.ResourceVersion += "0"
	}
	source := make(chan watch.Event, 100)
	informer := cache.NewSharedIndexInformer(inMemory(versions[0], source), &corev1.Pod{}, 0, podIndexers())
	arrived := make(chan struct{}, 1)
	nobodyWaits := handlers == 0 && atOnce == 1 // for want of a handler, the store's side tells that an event is there
	if nobodyWaits {
		must(informer.SetTransform(func(object any) (any, error) {
			select {
			case arrived <- struct{}{}:
			default: // of the list
			}
			return object, nil
		}))
	}
	go informer.RunWithContext(ctx)
	cache.WaitFor(ctx, "", informer.HasSyncedChecker())

	before := live()
	var done sync.WaitGroup
	for range handlers {
		registration, err := informer.AddEventHandler(&countdown{events: atOnce, done: &done})
		must(err)
		cache.WaitFor(ctx, "", registration.HasSyncedChecker())
	}
	held := func() float64 {
		if handlers == 0 {
			return 0
		}
		return max(0, float64(live())-float64(before)) / float64(handlers)
	}
	idle := held()
	sent := 0 // the versions alternate, also from round to round
	if nobodyWaits {
		<-arrived // of the list
	}
	measured := o.measure(fmt.Sprintf("%s/%d", name, handlers), events*max(1, handlers), func(int) {
		for range events / atOnce {
			done.Add(handlers)
			for range atOnce {
				source <- watch.Event{Type: watch.Modified, Object: versions[(sent/objects+1)%2][sent%objects]}
				sent++
			}
			done.Wait()
			if nobodyWaits {
				<-arrived
			}
		}
		last := versions[((sent-1)/objects+1)%2][(sent-1)%objects]
		for handlers == 0 {
			if stored, _, _ := informer.GetStore().Get(last); stored == any(last) {
				break
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
	time.Sleep(10 * time.Millisecond) // the goroutines of the last event come to rest
	measured.AfterLoad = held()
	measured.holding(idle).print()
}

// countdown tells when it has seen another so many updates.
type countdown struct {
	events, seen int
	done         *sync.WaitGroup
}

func (*countdown) OnAdd(any, bool) {}

func (*countdown) OnDelete(any) {}

func (c *countdown) OnUpdate(any, any) {
	if c.seen++; c.seen%c.events == 0 {
		c.done.Done()
	}
}
