export type Message = { readonly role: string; readonly content: string };
export type Picked = { readonly writer: string; readonly sequence: number; readonly picks: readonly number[] };
export function messageOf(number: number): Message;
export function conversationOf(count: number): { count: number; messages: Message[] };
export function pickedState(picked: Picked): Picked & { messages: Message[] };
