"""What a pod costs in a document pool, without network and cache."""
import subprocess

from driver import programs
from driver.arguments import count

summary = "the document pool alone: bytes and time per pod against Boost.JSON's SAX parser"


def arguments(parser):
    parser.add_argument("--pods", type=count, default=20000)
    parser.add_argument("--replicas", type=count, default=20, help="pods per Deployment")


def run(options):
    program, = programs.build("pool_memory")
    return subprocess.run([program, str(options.pods), str(options.replicas)]).returncode
