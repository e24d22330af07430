import { useChat } from "@ai-sdk/react";
import { lastAssistantMessageIsCompleteWithApprovalResponses as answered } from "ai";
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";

const id = location.hash.slice(1) || "1";
const api = `/api/chat/${id}`;
const history = async () => (await (await fetch(`${api}/messages`)).json()).messages;

function Chat({ before }) {
	const [text, setText] = useState("");
	const chat = useChat({
		id, messages: before, resume: true, sendAutomaticallyWhen: answered,
		onFinish: ({ finishReason, isAbort, isError, isDisconnect }) => {
			if (!finishReason && !isAbort && (!isError || isDisconnect)) goOn();
		},
	});
	const goOn = async () => { // the answer has ended without a finish
		await chat.resumeStream();
		const newest = await history().catch(() => null);
		if (newest) chat.setMessages(newest);
		else setTimeout(goOn, 1000);
	};
	const stop = async () => {
		await fetch(`${api}/stop`, { method: "POST", headers: { "Content-Type": "application/json" } });
	};
	const send = (event) => {
		event.preventDefault();
		chat.sendMessage({ text });
		setText("");
	};
	const edit = (message) => {
		const now = prompt("Say instead:");
		if (now) chat.sendMessage({ text: now, messageId: message.id });
	};
	return <>
		{chat.messages.map((m) => <p key={m.id} className={m.role}>
			{m.parts.map((p, i) => <Part key={i} part={p} answer={chat.addToolApprovalResponse} />)}
			{m.role === "user" && <button className="edit" onClick={() => edit(m)}>Edit</button>}
			{m.role === "assistant" && <button className="again" onClick={() => chat.regenerate({ messageId: m.id })}>
				Again
			</button>}
		</p>)}
		<p id="status">{chat.status}</p>
		<form onSubmit={send}>
			<input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
			<button id="send">Send</button> <button id="stop" type="button" onClick={stop}>Stop</button>
		</form>
	</>;
}

function Part({ part, answer }) {
	if (part.type === "text") return <span className="text">{part.text}</span>;
	if (part.type !== "dynamic-tool") return null;
	return <span className="tool">
		{part.toolName} {JSON.stringify(part.input)} {part.state} {JSON.stringify(part.output)}
		{part.state === "approval-requested" && [true, false].map((approved) =>
			<button key={approved} className={approved ? "yes" : "no"}
				onClick={() => answer({ id: part.approval.id, approved })}>{approved ? "Yes" : "No"}</button>)}
	</span>;
}

createRoot(document.querySelector("main")).render(
	<StrictMode><Chat before={await history()} /></StrictMode>);
