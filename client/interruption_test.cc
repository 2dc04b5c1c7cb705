#include "client/interruption.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace attend::client {
namespace {

TEST(Interruption, ASignalIsAQuestion) {
  EXPECT_FALSE(Interruption::requested());
  {
    const Interruption interruption;
    EXPECT_FALSE(Interruption::requested());
    raise(SIGTERM);
    EXPECT_TRUE(Interruption::requested());
  }
  EXPECT_TRUE(Interruption::requested()) << "remembered until the next";
  const Interruption next;
  EXPECT_FALSE(Interruption::requested());
  Interruption::EndIfRequested();
}

TEST(InterruptionDeathTest, TheSecondSignalEndsAtOnce) {
  EXPECT_EXIT(
      {
        const Interruption interruption;
        raise(SIGINT);
        raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptionDeathTest, EndsAsTheSignalWouldHave) {
  EXPECT_EXIT(
      {
        {
          const Interruption interruption;
          raise(SIGTERM);
        }
        Interruption::EndIfRequested();
        std::exit(0);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(InterruptionDeathTest, HandlersArePutBack) {
  EXPECT_EXIT(
      {
        { const Interruption interruption; }
        raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace attend::client
