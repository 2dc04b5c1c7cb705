// AttendRequests to start mutating from: small, and with every kind of field.
#ifndef ATTEND_TESTS_FUZZ_REQUEST_SEEDS_H_
#define ATTEND_TESTS_FUZZ_REQUEST_SEEDS_H_

#include <string>
#include <vector>

namespace attend::fuzz {

std::vector<std::string> RequestSeeds();

}  // namespace attend::fuzz

#endif  // ATTEND_TESTS_FUZZ_REQUEST_SEEDS_H_
