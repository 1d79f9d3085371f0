// The smallest user, until docs/examples/readme.cpp is there.
int main() {}
