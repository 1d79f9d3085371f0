"""What a pod costs in a document pool, without network and cache."""
import subprocess

from driver import programs
from driver.arguments import count

summary = "the document pool alone: bytes and time per pod against Boost.JSON's SAX parser, and what reading by differences saves"


def variants(text):
    for one in text.split(","):
        if one != "shuffled":
            count(one)
    return text


def arguments(parser):
    parser.add_argument("--pods", type=count, default=20000)
    parser.add_argument("--replicas", type=variants, default="20,3,1,shuffled", metavar="N,…",
                        help="pods per Deployment, or shuffled: 20 of them in random order (20,3,1,shuffled)")


def run(options):
    memory, difference = programs.build("pool_memory", "text_difference")
    failed = [subprocess.run(command).returncode != 0 for command in (
        [memory, str(options.pods), options.replicas], [difference, str(options.pods), "20"])]
    return 1 if any(failed) else 0
