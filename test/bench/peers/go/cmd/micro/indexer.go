package main

import (
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

const podCount = 10_000

// indexers measures client-go's store and its listers, which hand out pointers into it.
func indexers(o options) {
	pods, newer := o.makePods(podCount), o.makePods(podCount)
	keys := make([]string, podCount)
	for i, pod := range pods {
		keys[i] = cache.MetaObjectToName(pod).String()
	}
	filled := func() cache.Indexer {
		indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, podIndexers())
		for _, pod := range pods {
			must(indexer.Add(pod))
		}
		return indexer
	}

	o.measure("indexer/add", podCount, func(int) { filled() }).holding(held(podCount, func() any { return filled() })).print()

	indexer := filled()
	o.measure("indexer/update", podCount, func(round int) {
		for i := range podCount {
			pod := newer[i]
			if round%2 == 1 {
				pod = pods[i]
			}
			must(indexer.Update(pod))
		}
	}).print()

	o.measure("indexer/get", operations, func(int) {
		for i := range operations {
			if _, exists, _ := indexer.GetByKey(keys[i%podCount]); !exists {
				panic("lost")
			}
		}
	}).print()

	const lists = 10_000
	o.measure("indexer/by_index_100", lists, func(int) {
		for i := range lists {
			found, err := indexer.ByIndex(byNode, pods[i%podCount].Spec.NodeName)
			mustBe(podCount/nodes, len(found), err)
		}
	}).print()
	o.measure("indexer/list_10000", lists/100, func(int) {
		for range lists / 100 {
			mustBe(podCount, len(indexer.List()), nil)
		}
	}).print()

	lister := corelisters.NewPodLister(indexer)
	o.measure("indexer/lister_get", operations, func(int) {
		for i := range operations {
			pod := pods[i%podCount]
			if _, err := lister.Pods(pod.Namespace).Get(pod.Name); err != nil {
				panic(err)
			}
		}
	}).print()
	o.measure("indexer/lister_namespace_500", lists/10, func(int) {
		for i := range lists / 10 {
			found, err := lister.Pods(pods[i].Namespace).List(labels.Everything())
			mustBe(podCount/namespaces, len(found), err)
		}
	}).print()
	selector := labels.SelectorFromSet(labels.Set{"app": "app-7", "tier": "backend"})
	o.measure("indexer/lister_selector_20_of_10000", lists/100, func(int) {
		for range lists / 100 {
			found, err := lister.List(selector)
			mustBe(replicas, len(found), err)
		}
	}).print()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func mustBe(want, got int, err error) {
	if must(err); got != want {
		panic("not as many objects as there are")
	}
}
