"""What the options of a suite take."""
import argparse


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
