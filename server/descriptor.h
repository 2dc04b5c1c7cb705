// A file descriptor that is closed when its owner goes.
#ifndef ATTEND_SERVER_DESCRIPTOR_H_
#define ATTEND_SERVER_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace attend::server {

class Descriptor {
 public:
  Descriptor() = default;
  // Takes `number`, which may be -1: none.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { Close(); }

  Descriptor(Descriptor&& other) noexcept : number_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Close();
      number_ = other.Release();
    }
    return *this;
  }

  // -1 if there is none.
  int number() const { return number_; }
  bool valid() const { return number_ >= 0; }

  // Somebody else closes it from now on.
  int Release() { return std::exchange(number_, -1); }

 private:
  void Close() {
    if (valid()) close(number_);
  }

  int number_ = -1;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_DESCRIPTOR_H_
