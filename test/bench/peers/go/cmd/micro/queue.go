package main

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	operations = 1_000_000
	held100k   = 100_000
	// Many enough that the time to work through them is longer than the shortest delay.
	delayed = 50_000
)

func queues(o options) {
	keys := make([]string, held100k)
	requests := make([]reconcile.Request, held100k)
	for i := range keys {
		name := types.NamespacedName{Namespace: fmt.Sprintf("ns-%d", i%20), Name: fmt.Sprintf("pod-%d", i)}
		keys[i], requests[i] = name.String(), reconcile.Request{NamespacedName: name}
	}

	queue := workqueue.NewTyped[string]()
	o.measure("queue/add_get_done", operations, func(int) {
		for i := range operations {
			queue.Add(keys[i%len(keys)])
			takeOne(queue)
		}
	}).holding(held(held100k, func() any {
		filled := workqueue.NewTyped[string]()
		for _, key := range keys {
			filled.Add(key)
		}
		return filled
	})).print()

	o.measure("queue/add_get_done_goroutines", operations, func(int) {
		across(queue, func() {
			for i := range operations {
				queue.Add(keys[i%len(keys)])
			}
		})
	}).print()

	queue.Add(keys[0])
	o.measure("queue/duplicate_add", operations, func(int) {
		for range operations {
			queue.Add(keys[0])
		}
	}).print()

	delaying := workqueue.NewTypedDelayingQueue[string]()
	o.measure("queue/add_after_done", delayed, func(int) {
		for i := range delayed {
			delaying.AddAfter(keys[i], time.Millisecond)
		}
		for range delayed {
			takeOne(delaying)
		}
	}).holding(held(held100k, func() any {
		filled := workqueue.NewTypedDelayingQueue[string]()
		for _, key := range keys {
			filled.AddAfter(key, time.Hour)
		}
		return filled
	})).print()

	limited := func(base time.Duration) workqueue.TypedRateLimitingInterface[string] {
		return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](base, time.Hour))
	}
	rateLimited := limited(time.Millisecond)
	o.measure("queue/rate_limited_done", delayed, func(int) {
		for i := range delayed {
			rateLimited.AddRateLimited(keys[i])
		}
		for range delayed {
			key, _ := rateLimited.Get()
			rateLimited.Forget(key)
			rateLimited.Done(key)
		}
	}).holding(held(held100k, func() any {
		filled := limited(time.Hour)
		for _, key := range keys {
			filled.AddRateLimited(key)
		}
		return filled
	})).print()

	priority := priorityqueue.New[reconcile.Request]("micro")
	o.measure("queue/priority_add_get_done", operations/10, func(int) {
		for i := range operations / 10 {
			priority.Add(requests[i%len(requests)])
			takeOne(priority)
		}
	}).holding(held(held100k, func() any {
		filled := priorityqueue.New[reconcile.Request]("held")
		filled.AddWithOpts(priorityqueue.AddOpts{}, requests...)
		for filled.Len() < len(requests) { // added by another goroutine
			time.Sleep(time.Millisecond)
		}
		return filled
	})).print()

	o.measure("queue/priority_backlog_add_get_done", held100k, func(int) {
		for _, request := range requests {
			priority.Add(request)
		}
		for range requests {
			takeOne(priority)
		}
	}).print()
}

func takeOne[T comparable](queue workqueue.TypedInterface[T]) {
	item, _ := queue.Get()
	queue.Done(item)
}

// across adds in one goroutine what another gets. A key that is still queued when it is added again comes once.
func across(queue workqueue.TypedInterface[string], add func()) {
	const last = "the last"
	var consumer sync.WaitGroup
	consumer.Go(func() {
		for {
			key, _ := queue.Get()
			queue.Done(key)
			if key == last {
				return
			}
		}
	})
	add()
	queue.Add(last)
	consumer.Wait()
}
