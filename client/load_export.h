// The figures of a load test for programs.
#ifndef ATTEND_CLIENT_LOAD_EXPORT_H_
#define ATTEND_CLIENT_LOAD_EXPORT_H_

#include <string>

#include "client/load_report.h"

namespace attend::client {

// One object: the settings, and under "lengths" an object for each length. Times are in seconds, errors an object of
// counts by code. Keys never change their meaning.
std::string LoadJson(const LoadReport& report);

// A header and a line for each length, the same figures in columns of the same names; errors of all codes together in
// "failed".
std::string LoadCsv(const LoadReport& report);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_LOAD_EXPORT_H_
