// Numbers of bytes as people read them.
#ifndef ATTEND_CLIENT_BYTE_SIZE_H_
#define ATTEND_CLIENT_BYTE_SIZE_H_

#include <cstdint>
#include <string>

namespace attend::client {

// "256 MiB": four digits, exact where that is short.
std::string ByteSize(int64_t bytes);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_BYTE_SIZE_H_
