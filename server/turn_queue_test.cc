#include "server/turn_queue.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Item {
  std::string client;
  int number = 0;
};

std::vector<int> Order(const TurnQueue<Item>& queue) {
  std::vector<int> numbers;
  queue.ForEachInOrder([&](Item* item) {
    numbers.push_back(item->number);
    return true;
  });
  return numbers;
}

std::vector<int> Firsts(const TurnQueue<Item>& queue) {
  std::vector<int> numbers;
  queue.ForEachFirst([&](Item* item) {
    numbers.push_back(item->number);
    return true;
  });
  return numbers;
}

class TurnQueueTest : public ::testing::Test {
 protected:
  TurnQueueTest() {
    for (Item& item : items_) queue_.Add(item.client, &item);
  }
  void Serve(int number) {
    queue_.Serve(items_[static_cast<size_t>(number)].client, &items_[static_cast<size_t>(number)]);
  }
  void Remove(int number) {
    queue_.Remove(items_[static_cast<size_t>(number)].client, &items_[static_cast<size_t>(number)]);
  }

  std::vector<Item> items_ = {{"a", 0}, {"a", 1}, {"a", 2}, {"b", 3}, {"b", 4}, {"c", 5}};
  TurnQueue<Item> queue_;
};

TEST_F(TurnQueueTest, ClientsTakeTurnsAndTheirItemsKeepTheirOrder) {
  EXPECT_THAT(Order(queue_), ElementsAre(0, 3, 5, 1, 4, 2));
  EXPECT_THAT(Firsts(queue_), ElementsAre(0, 3, 5));
  EXPECT_EQ(queue_.size(), 6);
}

TEST_F(TurnQueueTest, AServedClientGoesBehindTheOthers) {
  Serve(0);
  EXPECT_THAT(Order(queue_), ElementsAre(3, 5, 1, 4, 2));
  Serve(3);
  EXPECT_THAT(Order(queue_), ElementsAre(5, 1, 4, 2));
  Serve(5);
  EXPECT_THAT(Order(queue_), ElementsAre(1, 4, 2));
}

TEST_F(TurnQueueTest, AnItemThatPassedItsOwnClientsTakesNoTurn) {
  Serve(1);
  EXPECT_THAT(Order(queue_), ElementsAre(0, 3, 5, 2, 4));
}

TEST_F(TurnQueueTest, RemovingKeepsTurns) {
  Remove(0);
  EXPECT_THAT(Order(queue_), ElementsAre(1, 3, 5, 2, 4));
  Remove(5);
  EXPECT_THAT(Order(queue_), ElementsAre(1, 3, 2, 4));
}

TEST_F(TurnQueueTest, AClientThatComesBackGoesBehindTheOthers) {
  Remove(5);
  Item again = {"c", 6};
  Remove(3);
  Remove(4);
  queue_.Add("c", &again);
  EXPECT_THAT(Firsts(queue_), ElementsAre(0, 6));
}

TEST_F(TurnQueueTest, EmptiesAndStops) {
  for (int number = 0; number < 6; ++number) Remove(number);
  EXPECT_THAT(Order(queue_), IsEmpty());
  EXPECT_EQ(queue_.size(), 0);
  queue_.Add("a", &items_[0]);
  queue_.Add("b", &items_[3]);
  int visited = 0;
  queue_.ForEachInOrder([&](Item*) { return ++visited, false; });
  EXPECT_EQ(visited, 1);
}

}  // namespace
}  // namespace attend::server
