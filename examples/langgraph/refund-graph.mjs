import { AIMessage, ToolMessage } from '@langchain/core/messages';
import { END, interrupt, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';

const ORDERS = { 1042: { item: 'teapot', price: 39 } };

/**
 * An agent that looks an order up, asks a person whether it may pay the money back, and pays. The model is a script.
 * `think` is what a model call takes; `tell` hears which node runs.
 */
export function compileRefundGraph({ checkpointer, think, tell }) {
  async function agent({ messages }) {
    tell('agent runs: the model thinks');
    await think(messages);
    return { messages: [answer(messages.at(-1))] };
  }

  function lookUp({ messages }) {
    const [call] = messages.at(-1).tool_calls;
    tell(`lookUp runs: the tool reads order ${call.args.order}`);
    return { messages: [toolResult(call, ORDERS[call.args.order])] };
  }

  function refund({ messages }) {
    const [call] = messages.at(-1).tool_calls;
    const { isApproved, by } = interrupt({ question: `Pay ${call.args.amount} back for order ${call.args.order}?` });
    tell(`refund runs: ${by} said ${isApproved ? 'yes' : 'no'}`);
    return { messages: [toolResult(call, { paid: isApproved ? call.args.amount : 0 })] };
  }

  return new StateGraph(MessagesAnnotation)
    .addNode('agent', agent)
    .addNode('lookUp', lookUp)
    .addNode('refund', refund)
    .addEdge(START, 'agent')
    .addConditionalEdges('agent', ({ messages }) => messages.at(-1).tool_calls[0]?.name ?? END, [
      'lookUp',
      'refund',
      END,
    ])
    .addEdge('lookUp', 'agent')
    .addEdge('refund', 'agent')
    .compile({ checkpointer });
}

/** The scripted model. */
function answer(last) {
  if (last.getType() === 'human') return callTool('lookUp', { order: 1042 });
  const result = JSON.parse(last.content);
  if (last.name === 'lookUp') return callTool('refund', { order: 1042, amount: result.price });
  return new AIMessage(result.paid > 0 ? `You get ${result.paid} back.` : 'I may not pay that back.');
}

function callTool(name, args) {
  return new AIMessage({ content: '', tool_calls: [{ id: `call_${name}`, name, args }] });
}

function toolResult({ id, name }, result) {
  return new ToolMessage({ tool_call_id: id, name, content: JSON.stringify(result) });
}
