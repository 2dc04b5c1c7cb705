// The figures of a load test as text to read.
#ifndef ATTEND_CLIENT_LOAD_TABLE_H_
#define ATTEND_CLIENT_LOAD_TABLE_H_

#include <string>

#include "client/load_report.h"

namespace attend::client {

// Two tables within 100 columns (lists of errors may be longer), a line for each length: what clients saw, and where
// the server spent the time; then, where there is something to say, errors with a message each, calls that could not be
// sent, interruption and verification.
std::string LoadTable(const LoadReport& report);

// A number with three significant digits, or all those before its decimal point: "0.0123", "4.56", "78.9", "12345".
std::string ShortNumber(double number);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_LOAD_TABLE_H_
