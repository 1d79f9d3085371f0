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
// handlers it is what watch and store cost, by event.
func fanOut(o options) {
	for _, scale := range []struct{ handlers, events int }{{0, 200_000}, {1, 200_000}, {10, 50_000}, {100, 10_000}, {1000, 2_000}} {
		o.fanOut(scale.handlers, scale.events)
	}
}

func (o options) fanOut(handlers, events int) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	const objects = 100
	versions := [2][]*corev1.Pod{o.makePods(objects), o.makePods(objects)}
	for _, pod := range versions[1] {
		pod.ResourceVersion += "0"
	}
	source := make(chan watch.Event, 100)
	informer := cache.NewSharedIndexInformer(inMemory(versions[0], source), &corev1.Pod{}, 0, podIndexers())
	go informer.RunWithContext(ctx)
	cache.WaitFor(ctx, "", informer.HasSyncedChecker())

	before := live()
	var done sync.WaitGroup
	for range handlers {
		registration, err := informer.AddEventHandler(&countdown{events: events, done: &done})
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
	measured := o.measure(fmt.Sprintf("fanout/%d", handlers), events*max(1, handlers), func(int) {
		done.Add(handlers)
		for range events {
			source <- watch.Event{Type: watch.Modified, Object: versions[(sent/objects+1)%2][sent%objects]}
			sent++
		}
		done.Wait()
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
