// LSTM, GRU and plain recurrent networks, unrolled over time. The products with
// the inputs are one per layer and direction; only those with the hidden state
// are inside the recurrence.
#include "compiler/import/aten/Lowering.h"

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

namespace {
enum class Cell { Lstm, Gru, Tanh, Relu };

struct Weights {
  Value input, hidden, inputBias, hiddenBias, projection;
};

struct State {
  Value h, c;
};
} // namespace

static Value gate(Emitter &t, Value gates, int64_t i, int64_t width) {
  return t.sliceDim(gates, 1, i * width, (i + 1) * width);
}

static Value affine(Emitter &t, Value x, Value weight, Value bias) {
  Value y = t.dot(x, weight, {}, {}, {1}, {1});
  return bias ? t.add(y, bias) : y;
}

/// One step: `x` holds the products with the input, biases included.
static State step(Emitter &t, Cell cell, Value x, State state, const Weights &w,
                  int64_t width) {
  Value h = affine(t, state.h, w.hidden, w.hiddenBias);
  if (cell == Cell::Lstm) {
    Value gates = t.add(x, h);
    Value i = t.sigmoid(gate(t, gates, 0, width)),
          f = t.sigmoid(gate(t, gates, 1, width));
    Value g = t.tanh(gate(t, gates, 2, width)),
          o = t.sigmoid(gate(t, gates, 3, width));
    Value c = t.add(t.mul(f, state.c), t.mul(i, g));
    Value out = t.mul(o, t.tanh(c));
    if (w.projection)
      out = affine(t, out, w.projection, {});
    return {out, c};
  }
  if (cell == Cell::Gru) {
    Value r = t.sigmoid(t.add(gate(t, x, 0, width), gate(t, h, 0, width)));
    Value z = t.sigmoid(t.add(gate(t, x, 1, width), gate(t, h, 1, width)));
    Value n =
        t.tanh(t.add(gate(t, x, 2, width), t.mul(r, gate(t, h, 2, width))));
    return {t.add(t.mul(t.sub(1, z), n), t.mul(z, state.h)), {}};
  }
  Value sum = t.add(x, h);
  return {cell == Cell::Tanh ? t.tanh(sum) : t.select(t.le(sum, 0), 0, sum),
          {}};
}

/// One layer in one direction over [time, batch, features]: all hidden states,
/// and the last state.
static std::pair<Value, State> runLayer(Emitter &t, Cell cell, Value sequence,
                                        State state, const Weights &w,
                                        int64_t width, bool reverse) {
  int64_t time = shapeOf(sequence)[0], batch = shapeOf(sequence)[1],
          features = shapeOf(sequence)[2];
  Value products = affine(t, t.reshape(sequence, {time * batch, features}),
                          w.input, w.inputBias);
  if (!products)
    return {};
  products = t.reshape(products, {time, batch, shapeOf(products)[1]});
  SmallVector<Value> outputs(time);
  for (int64_t i = 0; i < time; ++i) {
    int64_t at = reverse ? time - 1 - i : i;
    state = step(t, cell, t.at(products, 0, at), state, w, width);
    if (!state.h)
      return {};
    outputs[at] = t.unsqueeze(state.h, 0);
  }
  return {t.concat(outputs, 0), state};
}

static void lowerRecurrent(OpCall &op) {
  Cell cell = op.base == "lstm"       ? Cell::Lstm
              : op.base == "gru"      ? Cell::Gru
              : op.base == "rnn_tanh" ? Cell::Tanh
                                      : Cell::Relu;
  if (op.overload == "data")
    return op.unsupported("packed sequences");
  Value x = op.tensor("input");
  SmallVector<Value> params = op.tensors("params");
  SmallVector<Value> initial = cell == Cell::Lstm
                                   ? op.tensors("hx")
                                   : SmallVector<Value>{op.tensor("hx")};
  bool biases = op.flag("has_biases", true),
       bidirectional = op.flag("bidirectional"),
       batchFirst = op.flag("batch_first"), train = op.flag("train");
  int64_t layers = op.integer("num_layers", 1),
          directions = bidirectional ? 2 : 1;
  double rate = op.real("dropout", 0);
  if (op.bad())
    return;
  bool projected = cell == Cell::Lstm && !params.empty() &&
                   params.size() == static_cast<size_t>(layers * directions *
                                                        (biases ? 5 : 3));
  size_t each = (biases ? 4 : 2) + projected;
  bool unbatched = rankOf(x) == 2;
  if ((rankOf(x) != 3 && !unbatched) ||
      params.size() != each * layers * directions ||
      initial.size() != (cell == Cell::Lstm ? 2u : 1u))
    return op.unsupported("this form of recurrent network");
  if (unbatched) {
    x = op.t.unsqueeze(x, 1);
    for (Value &state : initial)
      state = op.t.unsqueeze(state, 1);
  } else if (batchFirst) {
    x = op.t.swapDims(x, 0, 1);
  }
  SmallVector<Value> lastH, lastC;
  for (int64_t layer = 0; layer < layers && !op.bad(); ++layer) {
    SmallVector<Value> outputs;
    for (int64_t direction = 0; direction < directions && !op.bad();
         ++direction) {
      int64_t index = layer * directions + direction;
      ArrayRef<Value> p = ArrayRef(params).slice(index * each, each);
      Weights w{p[0], p[1], biases ? p[2] : Value(), biases ? p[3] : Value(),
                projected ? p.back() : Value()};
      for (Value &state : initial)
        if (rankOf(state) != 3 || shapeOf(state)[0] != layers * directions)
          return void(op.t.fail(
              "expected an initial state for each layer and direction"));
      State state{op.t.at(initial[0], 0, index),
                  initial.size() > 1 ? op.t.at(initial[1], 0, index) : Value()};
      int64_t gates = cell == Cell::Lstm  ? 4
                      : cell == Cell::Gru ? 3
                                          : 1,
              width = rankOf(p[1]) == 2 ? shapeOf(p[1])[0] / gates : 0;
      auto [sequence, last] =
          runLayer(op.t, cell, x, state, w, width, direction == 1);
      if (!sequence)
        return;
      outputs.push_back(sequence);
      lastH.push_back(op.t.unsqueeze(last.h, 0));
      if (last.c)
        lastC.push_back(op.t.unsqueeze(last.c, 0));
    }
    x = op.t.concat(outputs, 2);
    if (rate > 0 && train && layer + 1 < layers && x)
      x = DropoutOp::create(op.t.b, op.t.loc, x, op.lowering.rng(), Value(),
                            APFloat(rate), op.lowering.nextDropoutId(),
                            DenseI64ArrayAttr())
              .getResult();
  }
  if (op.bad())
    return;
  SmallVector<Value> results{batchFirst && !unbatched ? op.t.swapDims(x, 0, 1)
                                                      : x,
                             op.t.concat(lastH, 0)};
  if (cell == Cell::Lstm)
    results.push_back(op.t.concat(lastC, 0));
  if (unbatched)
    for (Value &result : results)
      result = op.t.squeeze(result, 1);
  op.results(results);
}

/// One step: lstm_cell, gru_cell, rnn_tanh_cell, rnn_relu_cell.
static void lowerCell(OpCall &op) {
  Cell cell = op.base == "lstm_cell"       ? Cell::Lstm
              : op.base == "gru_cell"      ? Cell::Gru
              : op.base == "rnn_tanh_cell" ? Cell::Tanh
                                           : Cell::Relu;
  Value x = op.tensor("input");
  SmallVector<Value> initial = cell == Cell::Lstm
                                   ? op.tensors("hx")
                                   : SmallVector<Value>{op.tensor("hx")};
  Weights w{op.tensor("w_ih"), op.tensor("w_hh"), op.optionalTensor("b_ih"),
            op.optionalTensor("b_hh"), Value()};
  if (op.bad())
    return;
  if (initial.size() != (cell == Cell::Lstm ? 2u : 1u) || rankOf(x) != 2 ||
      rankOf(w.hidden) != 2)
    return op.unsupported("this form of recurrent cell");
  State state{initial[0], initial.size() > 1 ? initial[1] : Value()};
  state = step(op.t, cell, affine(op.t, x, w.input, w.inputBias), state, w,
               shapeOf(w.hidden)[1]);
  op.result(0, state.h);
  if (state.c)
    op.result(1, state.c);
}

void addRecurrent(OperatorTable &table) {
  table.add({"lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"},
            lowerCell);
  table.add({"lstm", "gru", "rnn_tanh", "rnn_relu"}, lowerRecurrent);
}

} // namespace lockstep::aten
