package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	podLine = `{"metadata":{"name":"web-1","namespace":"shop","uid":"7","resourceVersion":"1000000001","creationTimestamp":"2026-01-02T03:04:05Z",` +
		`"labels":{"b":"2","a":"1"},"annotations":{"bench/sent":"00000000000000000000"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"8","controller":true}],` +
		`"managedFields":[{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:phase":{}}},"subresource":"status"}]},` +
		`"spec":{"nodeName":"node-1","containers":[{"name":"c","image":"i:1","resources":{"limits":{"cpu":"500m","memory":"512Mi"}},"livenessProbe":{"httpGet":{"path":"/","port":8080}}}]},` +
		`"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`
	widgetLine = `{"metadata":{"name":"w","namespace":"shop","resourceVersion":"1000000001"},"spec":{"deep":[{"tree":1.5}]}}`
)

func newCorpus(t *testing.T, meta, apiVersion, kind, item string) string {
	t.Helper()
	folder := t.TempDir()
	event := `{"kind":"` + kind + `","apiVersion":"` + apiVersion + `",` + item[1:]
	for name, text := range map[string]string{
		"meta.json":    meta,
		"items.jsonl":  item + "\n" + strings.Replace(item, `"name":"w`, `"name":"x`, 1) + "\n",
		"events.jsonl": strings.Replace(event, "1000000001", "1200000001", 1) + "\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func podCorpus(t *testing.T, item string) string {
	return newCorpus(t, `{"group":"","version":"v1","resource":"pods","kind":"Pod","count":2}`, "v1", "Pod", item)
}

func read(t *testing.T, folder, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestClientsReadBackWhatTheJSONSays(t *testing.T) {
	folder := podCorpus(t, podLine)
	if err := run(folder, true); err != nil {
		t.Fatal(err)
	}
	// What the canned server overwrites in place has to stand there with its full length.
	for _, name := range []string{"events.pb", "pmeta_events.pb"} {
		text := read(t, folder, name)
		if !bytes.Contains(text, []byte("\n\nbench/sent\x12\x1400000000000000000000")) {
			t.Errorf("%s: no place for the time of sending", name)
		}
		if !bytes.Contains(text, []byte("\x321200000001")) && !bytes.Contains(text, []byte("2\n1200000001")) {
			t.Errorf("%s: no resource version", name)
		}
	}
}

func TestCustomResourcesHaveMetadataOnly(t *testing.T) {
	folder := newCorpus(t, `{"group":"example.io","version":"v1","resource":"widgets","kind":"Widget","count":2}`, "example.io/v1", "Widget", widgetLine)
	if err := run(folder, true); err != nil {
		t.Fatal(err)
	}
	read(t, folder, "pmeta_initial.pb")
	if _, err := os.Stat(filepath.Join(folder, "initial.pb")); !os.IsNotExist(err) {
		t.Error("whole custom resources have no protobuf")
	}
}

func TestACorpusWithoutEventsIsRendered(t *testing.T) {
	folder := podCorpus(t, podLine)
	if err := os.Remove(filepath.Join(folder, "events.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := run(folder, true); err != nil {
		t.Fatal(err)
	}
}

func TestAFieldThatTheTypeDoesNotHaveIsAnError(t *testing.T) {
	folder := podCorpus(t, strings.Replace(podLine, `"nodeName"`, `"nodename"`, 1))
	if err := run(folder, false); err == nil || !strings.Contains(err.Error(), "nodename") {
		t.Errorf("got %v", err)
	}
}

func TestVerifyFindsAChangedByte(t *testing.T) {
	for _, name := range []string{"initial.pb", "events.pb", "pmeta_initial.pb", "pmeta_events.pb"} {
		folder := podCorpus(t, podLine)
		if err := run(folder, false); err != nil {
			t.Fatal(err)
		}
		changed := bytes.Replace(read(t, folder, name), []byte("kubelet"), []byte("kubelex"), 1)
		if err := os.WriteFile(filepath.Join(folder, name), changed, 0o644); err != nil {
			t.Fatal(err)
		}
		corpus, err := openCorpus(folder)
		if err != nil {
			t.Fatal(err)
		}
		if err := corpus.verify(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
