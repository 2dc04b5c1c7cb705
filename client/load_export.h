// The figures of a load test for programs.
#ifndef ATTEND_CLIENT_LOAD_EXPORT_H_
#define ATTEND_CLIENT_LOAD_EXPORT_H_

#include <string>

#include "client/load_report.h"

namespace attend::client {

// One object: the settings, under "lengths" an object for each length, and under "mix", if there was one, "lengths"
// like these with their "share" of the calls. Times are in seconds, errors an object of counts by code. Keys never
// change their meaning.
std::string LoadJson(const LoadReport& report);

// A header and a line for each length, the same figures in columns of the same names; errors of all codes together in
// "failed". In "mix_share" is the share of a length in the mix, whose lines come last, and 0 for a length alone.
std::string LoadCsv(const LoadReport& report);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_LOAD_EXPORT_H_
