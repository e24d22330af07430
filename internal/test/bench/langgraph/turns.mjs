// Plays turns with LangGraph and its PostgresSaver, for agentselsewhere.go. Each line of the input is an order, and is
// answered with one line once it is done: its number, or its number and an error.
import { createInterface } from 'node:readline';
import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import pg from 'pg';

const [, , url, durability] = process.argv;
const saver = new PostgresSaver(new pg.Pool({ connectionString: url, max: 32 }));
await saver.setup();

const turns = new Map(); // by session: what is said in its turn, and how often the tool has had its effect
let ids = 0;
const message = (role, content, more) => ({ id: `m${++ids}`, role, content, ...more });
const calls = { calls: [{ id: 'c', name: 'lookup', args: { order: 'A-1042' } }] };
const whole = chat => [
  message('user', chat[0]), message('assistant', chat[1], calls), message('tool', chat[2], { call: 'c' }),
  message('assistant', chat[3]),
];
const last = state => state.messages[state.messages.length - 1];
const turnOf = config => turns.get(config.configurable.thread_id);

const graph = new StateGraph(Annotation.Root({
  messages: Annotation({ reducer: (all, more) => all.concat(more), default: () => [] }),
}))
  .addNode('model', (state, config) => ({
    messages: [last(state).role === 'user'
      ? message('assistant', turnOf(config).chat[1], calls) : message('assistant', turnOf(config).chat[3])],
  }))
  .addNode('tools', (_, config) => {
    turnOf(config).effects++;
    return { messages: [message('tool', turnOf(config).chat[2], { call: 'c' })] };
  })
  .addEdge(START, 'model')
  .addConditionalEdges('model', state => last(state).calls ? 'tools' : END, ['tools', END])
  .addEdge('tools', 'model')
  .compile({ checkpointer: saver });

const obey = async ({ session, before, chat }) => {
  const config = { configurable: { thread_id: session }, durability };
  if (before) await graph.updateState(config, { messages: before.flatMap(whole) }, 'model');
  const turn = { chat, effects: 0 };
  turns.set(session, turn);
  const state = await graph.invoke({ messages: [message('user', chat[0])] }, config);
  if (last(state).content !== chat[3]) throw new Error(`the turn ends with ${JSON.stringify(last(state))}`);
  if (turn.effects !== 1) throw new Error(`the tool had its effect ${turn.effects} times`);
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  obey(order).then(
    () => console.log(JSON.stringify({ number: order.number })),
    error => console.log(JSON.stringify({ number: order.number, error: String(error) })),
  );
}
process.exit(0);
