"""Tests of the scripts that bring together what the build and the tests need. Run by check.py."""
import contextlib
import fcntl
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
