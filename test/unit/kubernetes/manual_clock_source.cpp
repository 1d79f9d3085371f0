// The library of test helpers links every room; this program tests the lowest one and takes the clock alone.
#include "testing/manual_clock.cpp"
