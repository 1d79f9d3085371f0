"""What the options of a suite take."""
import argparse
import os
import pathlib


def count(text):
    try:
        n = int(text)
    except ValueError:
        n = 0
    if n < 1:
        raise argparse.ArgumentTypeError("'%s' is no whole number above zero" % text)
    return n


def amount(text):
    try:
        x = float(text)
    except ValueError:
        x = 0.0
    if not 0 < x < float("inf"):
        raise argparse.ArgumentTypeError("'%s' is no number above zero" % text)
    return x


def file(text):
    """As the caller of ./dev means it, which goes to the repository."""
    return pathlib.Path(os.environ.get("INFORMER_CALLER", ""), text)
