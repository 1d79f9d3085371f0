"""Tests of the scripts that bring together what the build and the tests need. Run by check.py."""
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

here = os.path.dirname(os.path.abspath(__file__))


def script(path, text):
    with open(path, "w") as file:
        file.write("#!/bin/bash\n" + text)
    os.chmod(path, 0o755)
    return pathlib.Path(path)


def debian_12():
    with contextlib.suppress(OSError), open("/etc/os-release") as file:
        lines = file.read().replace('"', "").splitlines()
        return "ID=debian" in lines and "VERSION_ID=12" in lines
    return False


@unittest.skipUnless(debian_12(), "elsewhere nothing is installed")
class Deps(unittest.TestCase):
    """deps.sh where a package is missing; nothing is installed, and of the machine only the real apt-get's lock is used."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = dict(os.environ, PATH="%s:%s" % (self.folder, os.environ["PATH"]), XDG_CACHE_HOME=folder.name, HOME=folder.name)

    def stub(self, name, text):
        script(self.folder / name, text)

    def missing(self, package):
        """All packages are there but this one."""
        self.stub("dpkg-query", 'shift 3; [[ $* != catch2 ]] || { echo 3.7.1; exit; }\n'
                                'for p; do [[ $p == %s ]] || echo "installed $p"; done' % package)

    def deps(self, **environment):
        return subprocess.Popen([os.path.join(here, "deps.sh")], env=dict(self.environment, **environment), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def apt(self, update):
        """An apt-get that does this at an update, and notes what it should install. sudo lets it."""
        self.missing("mold")
        self.stub("sudo", 'exec "$@"')
        self.stub("apt-get", 'case " $* " in *" update "*) %s ;; *) echo "$*" >%s/installed ;; esac' % (update, self.folder))

    def test_an_update_waits_while_another_apt_holds_the_lists(self):
        lists = self.folder / "lists"
        (lists / "partial").mkdir(parents=True)
        config = self.folder / "apt.conf"
        config.write_text("".join('%s "%s";\n' % line for line in (
            ("Dir::State::lists", lists), ("Dir::Cache", self.folder), ("Dir::Etc::sourcelist", "/dev/null"), ("Dir::Etc::sourceparts", "/dev/null"))))
        self.apt('exec %s "$@"' % shutil.which("apt-get"))
        with open(lists / "lock", "w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            deps = self.deps(APT_CONFIG=str(config))
            self.addCleanup(deps.kill)
            said = []
            for line in deps.stderr:
                said.append(line)
                if "waiting for another apt" in line:
                    fcntl.lockf(lock, fcntl.LOCK_UN)
        self.assertEqual(deps.wait(60), 0, said)
        self.assertIn(str(lists), "".join(line for line in said if "waiting" in line))
        self.assertRegex((self.folder / "installed").read_text(), "install .* mold")

    def test_what_is_no_lock_fails_at_once(self):
        self.apt("echo 'E: no such thing' >&2; echo x >>%s/updates; exit 100" % self.folder)
        self.stub("cmake", "exit 1")
        out, err = (deps := self.deps()).communicate(timeout=60)
        self.assertEqual((deps.returncode, out), (1, ""))
        self.assertEqual(err.splitlines()[-2:], ["E: no such thing", "error: apt-get update failed"])
        self.assertEqual((self.folder / "updates").read_text(), "x\n")

    def test_a_sudo_that_refuses_matters_only_where_something_is_missing(self):
        self.missing("catch2")
        self.stub("id", "echo 1000")
        self.stub("sudo", "cat >/dev/null; exit 1")
        for found, status, last in (("0", 0, "apt's sources could not be changed; going on without"), ("1", 1, "error: apt's sources could not be changed")):
            self.stub("cmake", "exit " + found)
            out, err = (deps := self.deps(INFORMER_APT_SOURCES=str(self.folder))).communicate(timeout=60)
            self.assertEqual((deps.returncode, out), (status, ""), err)
            self.assertEqual(err.splitlines()[-1], last)
            (self.folder / "libinformer" / "without").unlink(missing_ok=True) # it would not be tried again


class DepsOfOtherSystems(unittest.TestCase):
    """What deps.sh would install where."""

    def deps(self, identity, version, found):
        """(exit status, what apt-get should install, last line of stderr); CMake finds all, or nothing."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            release = folder / "os-release"
            release.write_text('ID=%s\n%s' % (identity, 'VERSION_ID="%s"\n' % version if version else ""))
            for command in "ninja", "python3", "curl", "jq", "openssl", "dpkg-query":
                script(folder / command, "exit 0")
            script(folder / "cmake", "exit %d" % (not found))
            script(folder / "sudo", 'exec "$@"')
            script(folder / "apt-get", 'case " $* " in *" install "*) echo "${@##*-recommends}" >%s/installed ;; esac' % folder)
            environment = dict(os.environ, PATH="%s:%s" % (name, os.environ["PATH"]), XDG_CACHE_HOME=name, HOME=name,
                               INFORMER_OS_RELEASE=str(release), INFORMER_APT_SOURCES=name)
            done = subprocess.run([os.path.join(here, "deps.sh")], env=environment, capture_output=True, text=True, timeout=60)
            installed = folder / "installed"
            return done.returncode, installed.read_text().split() if installed.exists() else [], "".join(done.stderr.splitlines()[-1:])

    def test_debian_and_ubuntu_that_are_new_enough_get_their_own_packages(self):
        for system in ("debian", "13"), ("debian", ""), ("ubuntu", "24.04"), ("ubuntu", "26.04"):
            status, installed, said = self.deps(*system, found=False)
            self.assertEqual(status, 0, said)
            for package in "g++", "libboost-json-dev", "libboost-url-dev", "catch2", "prometheus-cpp-dev":
                self.assertIn(package, installed, system)

    def test_what_is_there_by_another_way_is_not_installed(self):
        for system in ("debian", "13"), ("ubuntu", "24.04"), ("ubuntu", "22.04"), ("fedora", "42"):
            self.assertEqual(self.deps(*system, found=True), (0, [], ""), system)

    def test_elsewhere_nothing_is_installed_and_what_is_needed_is_named(self):
        for system in ("debian", "11"), ("ubuntu", "22.04"), ("ubuntu", "23.10"), ("fedora", "42"):
            status, installed, said = self.deps(*system, found=False)
            self.assertEqual((status, installed), (1, []), system)
            self.assertIn("Boost 1.83", said)


class ApiserverBuild(unittest.TestCase):
    """apiserver_build.sh check: could a kube-apiserver be built here?"""

    def check(self, version, toolchain, error=None, needed="1.26.0"):
        """(exit status, last line of stderr) with a Go of this version."""
        with tempfile.TemporaryDirectory() as folder:
            mod = pathlib.Path(folder) / "go.mod"
            mod.write_text("module k8s.io/kubernetes\n\ngo %s\n" % needed)
            answer = {"Version": "v1", **({"Error": error} if error else {}), **({"GoMod": str(mod)} if needed else {})}
            script(mod.with_name("go"), "case $* in 'env GOVERSION') echo '%s' ;; 'env GOTOOLCHAIN') echo '%s' ;;\n"
                                        "*) echo '%s'; exit %d ;; esac" % (version, toolchain, json.dumps(answer), bool(error)))
            environment = dict(os.environ, PATH="%s:%s" % (folder, os.environ["PATH"]), XDG_CACHE_HOME=folder)
            environment.pop("INFORMER_KUBERNETES_VERSION", None)
            done = subprocess.run([os.path.join(here, "apiserver_build.sh"), "check"], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "")
        return done.returncode, "".join(done.stderr.splitlines()[-1:])

    def test_a_go_that_is_new_enough_or_may_become_so(self):
        for version, toolchain in (("go1.26.0", "local"), ("go1.26.8 X:nodwarf5", "local"), ("go1.100", "local"), ("go1.21.0", "auto"), ("go1.22.1", "go1.22.1+auto")):
            self.assertEqual(self.check(version, toolchain), (0, ""))

    def test_a_go_that_is_too_old_and_must_stay_so(self):
        refused = "k8s.io/kubernetes@v1.36.3 requires go >= 1.26.0 (running go 1.22.12; GOTOOLCHAIN=local)"
        for version, toolchain, error in (("go1.22.12", "local", refused), ("go1.25.9", "go1.25.9", refused), ("go1.20.14", "", None)):
            status, said = self.check(version, toolchain, error)
            self.assertEqual(status, 3, said)
            self.assertIn("needs Go 1.26.0; this one is %s and" % version[2:], said)

    def test_why_nothing_was_downloaded_is_told(self):
        status, said = self.check("go1.26.8", "local", "reading https://proxy: 403 Forbidden", needed="")
        self.assertEqual(status, 1)
        self.assertIn("reading https://proxy: 403 Forbidden", said)


class Ci(unittest.TestCase):
    """.ci/run, with stages that do nothing"""

    def run_with(self, check, dev="echo 2 passed, 0 failed"):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in ((".ci/run", None), ("test/scripts/apiserver_build.sh", check), ("dev", 'echo "$*" >>ran; ' + dev)):
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if text is None:
                    shutil.copy(os.path.join(here, "../..", name), path)
                else:
                    script(path, text)
            done = subprocess.run([path.parent / ".ci/run"], capture_output=True, text=True, timeout=60)
            return done, (path.parent / "ran").read_text().splitlines()

    def test_the_last_line_is_the_sum(self):
        done, ran = self.run_with("exit 0")
        self.assertEqual((done.returncode, done.stdout), (0, "%d passed, 0 failed\n" % (2 * len(ran))))
        self.assertEqual(ran, ["test", "test [slow]", "bench --check", "conformance"])
        done, ran = self.run_with("exit 0", "echo 2 passed, 1 failed; exit 1")
        self.assertEqual((done.returncode, done.stdout), (1, "%d passed, %d failed\n" % (2 * len(ran), len(ran))))
        done, ran = self.run_with("exit 0", "exit 1")
        self.assertEqual((done.returncode, done.stdout), (1, "0 passed, %d failed\n" % len(ran)))

    def test_a_go_that_cannot_build_kubernetes_leaves_that_out(self):
        done, ran = self.run_with("echo error: this Go is too old >&2; exit 3")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("conformance", ran)
        self.assertIn("no conformance run against a real kube-apiserver: this Go is too old\n", done.stderr)
        self.assertIn("conformance", self.run_with("exit 1")[1]) # what else is wrong shows there
