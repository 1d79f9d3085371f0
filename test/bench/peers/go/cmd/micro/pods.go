package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

const (
	byNode     = "spec.nodeName"
	nodes      = 100
	namespaces = 20
	replicas   = 20
)

// makePods returns pods spread over 100 nodes, 20 namespaces and apps of 20 replicas; in shape like those of the corpus,
// if there is one.
func (o options) makePods(count int) []*corev1.Pod {
	shapes := []*corev1.Pod{simplePod()}
	if o.corpus != "" {
		shapes = readPods(filepath.Join(o.corpus, "items.jsonl"), count)
	}
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pod := shapes[i%len(shapes)].DeepCopy()
		pod.Name = fmt.Sprintf("app-%d-7d4b9c6f5-%d", i/replicas, i)
		pod.Namespace = fmt.Sprintf("ns-%d", i%namespaces)
		pod.ResourceVersion = fmt.Sprint(1_000_000_000 + i)
		pod.Labels = map[string]string{"app": fmt.Sprintf("app-%d", i/replicas), "pod-template-hash": "7d4b9c6f5", "tier": "backend"}
		pod.Spec.NodeName = fmt.Sprintf("node-%d", i%nodes)
		pods[i] = pod
	}
	return pods
}

func readPods(path string, most int) []*corev1.Pod {
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	var pods []*corev1.Pod
	decoder := json.NewDecoder(bufio.NewReaderSize(file, 1<<20))
	for len(pods) < most && decoder.More() {
		pod := &corev1.Pod{}
		if err := decoder.Decode(pod); err != nil {
			panic(err)
		}
		pods = append(pods, pod)
	}
	if len(pods) == 0 {
		panic(path + " has no pods")
	}
	return pods
}

func simplePod() *corev1.Pod {
	controller, now := true, metav1.NewTime(time.Unix(1_767_225_600, 0))
	amounts := corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("512Mi")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID:               "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
			CreationTimestamp: now,
			Annotations:       map[string]string{"prometheus.io/scrape": "true", "checksum/config": "6d1f0a2b3c4d5e6f"},
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app-7d4b9c6f5", UID: "11", Controller: &controller}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", Time: &now, FieldsType: "FieldsV1",
					FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{}}}`)},
				{Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", Subresource: "status",
					FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{},"f:containerStatuses":{},"f:phase":{}}}`)},
			},
		},
		Spec:   corev1.PodSpec{RestartPolicy: "Always", DNSPolicy: "ClusterFirst", ServiceAccountName: "app", SchedulerName: "default-scheduler"},
		Status: corev1.PodStatus{Phase: "Running", HostIP: "192.168.0.1", PodIP: "10.0.0.1", StartTime: &now, QOSClass: "Burstable"},
	}
	for _, name := range []string{"server", "proxy"} {
		probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/healthy"}}}, PeriodSeconds: 10}
		container := corev1.Container{
			Name: name, Image: "registry.example.com/team/" + name + ":v1.2.3", Command: []string{"/bin/" + name, "--config=/etc/config.yaml"},
			Resources: corev1.ResourceRequirements{Limits: amounts, Requests: amounts}, LivenessProbe: probe, ReadinessProbe: probe,
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}, {Name: "token", MountPath: "/var/run/secrets"}},
		}
		for i := range 8 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: fmt.Sprintf("value-%d", i)})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, Ready: true, Image: container.Image, ContainerID: "containerd://0123456789abcdef",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
	}
	for _, condition := range []corev1.PodConditionType{"Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: "True", LastTransitionTime: now})
	}
	return pod
}

func podIndexers() cache.Indexers {
	return cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		byNode:               func(object any) ([]string, error) { return []string{object.(*corev1.Pod).Spec.NodeName}, nil },
	}
}

// inMemory is a server of these pods without a network, which sends what comes over the channel.
func inMemory(pods []*corev1.Pod, events chan watch.Event) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1100000000"}}
			for _, pod := range pods {
				list.Items = append(list.Items, *pod)
			}
			return list, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewProxyWatcher(events), nil
		},
	}
}
