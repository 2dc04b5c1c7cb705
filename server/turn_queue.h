// Who is served next among clients: they take turns, and each client's items go first come first served.
#ifndef ATTEND_SERVER_TURN_QUEUE_H_
#define ATTEND_SERVER_TURN_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <string>
#include <unordered_map>
#include <utility>

namespace attend::server {

// Holds pointers to items that others own. Not thread-safe.
template <typename Item>
class TurnQueue {
 public:
  // Behind the other items of `client`; a client that had none gets its turn after all others.
  void Add(const std::string& client, Item* item) {
    const auto [entry, is_new] = by_name_.try_emplace(client);
    if (is_new) entry->second = clients_.insert(clients_.end(), Client{client, {}});
    entry->second->items.push_back(item);
    ++size_;
  }

  // Takes out an item of `client` that was served. Was it the client's first, its turn is over. An item that had passed
  // earlier ones of its client takes no turn.
  void Serve(const std::string& client, Item* item) {
    const auto entry = by_name_.find(client);
    if (entry->second->items.front() == item) clients_.splice(clients_.end(), clients_, entry->second);
    Erase(entry, item);
  }

  // Takes out an item of `client` that gives up; all others keep their turns.
  void Remove(const std::string& client, Item* item) { Erase(by_name_.find(client), item); }

  // The items in the order in which they will be served if none comes or goes: the first item of each client, then the
  // second of each, and so on. `visit(Item*)` returns false to end it.
  template <typename Visit>
  void ForEachInOrder(Visit visit) const {
    size_t left = size_;
    for (size_t depth = 0; left > 0; ++depth) {
      for (const Client& client : clients_) {
        if (depth >= client.items.size()) continue;
        if (!visit(client.items[depth])) return;
        --left;
      }
    }
  }

  // The first item of each client, in the order of their turns. `visit(Item*)` returns false to end it.
  template <typename Visit>
  void ForEachFirst(Visit visit) const {
    for (const Client& client : clients_) {
      if (!visit(client.items.front())) return;
    }
  }

  int64_t size() const { return static_cast<int64_t>(size_); }

 private:
  struct Client {
    std::string name;
    std::deque<Item*> items;  // never empty
  };
  using ByName = std::unordered_map<std::string, typename std::list<Client>::iterator>;

  void Erase(typename ByName::iterator entry, Item* item) {
    std::deque<Item*>& items = entry->second->items;
    items.erase(std::find(items.begin(), items.end(), item));
    --size_;
    if (!items.empty()) return;
    clients_.erase(entry->second);
    by_name_.erase(entry);
  }

  std::list<Client> clients_;  // in the order of their turns
  ByName by_name_;
  size_t size_ = 0;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_TURN_QUEUE_H_
